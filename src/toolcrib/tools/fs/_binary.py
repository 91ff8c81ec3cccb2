"""What a file is that is not text, told by its first bytes."""

import codecs

__all__ = ["encoding_of", "is_binary", "kind_of"]

_KINDS = (
    (b"%PDF-", "a PDF document"), (b"PK\x03\x04", "a ZIP archive (or a document made of one)"),
    (b"\x1f\x8b", "gzip data"), (b"BZh", "bzip2 data"), (b"\xfd7zXZ\0", "xz data"), (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"), (b"\x7fELF", "an ELF program or library"), (b"MZ", "a Windows program"),
    (b"\xca\xfe\xba\xbe", "a Java class or a Mach-O program"), (b"SQLite format 3\0", "an SQLite database"),
    (b"OggS", "Ogg media"), (b"ID3", "MP3 audio"), (b"fLaC", "FLAC audio"), (b"RIFF", "RIFF media"),
    (b"II*\0", "a TIFF image"), (b"MM\0*", "a TIFF image"), (b"BM", "a BMP image"), (b"\0\0\1\0", "an icon"),
    (b"\0asm", "WebAssembly"), (b"wOF2", "a web font"), (b"wOFF", "a web font"),
)  # fmt: skip
_CONTROL = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b"))
_LARGEST_SHARE = 0.3


def encoding_of(head: bytes) -> str | None:
    """Return the encoding a byte-order mark announces, unless it is UTF-8, which needs no telling."""
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    return "utf-16" if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else None


def is_binary(head: bytes) -> bool:
    """Tell whether a file that begins so is no text: it holds NUL, or is mostly control bytes."""
    if b"\0" in head:
        return True
    strange = len(head) - len(head.translate(None, _CONTROL))
    return bool(head) and strange / len(head) > _LARGEST_SHARE


def kind_of(head: bytes) -> str:
    """Return what kind of binary file begins so."""
    if head[4:8] == b"ftyp":
        return "an MPEG-4 or HEIF file"
    return next((kind for signature, kind in _KINDS if head.startswith(signature)), "binary data")
