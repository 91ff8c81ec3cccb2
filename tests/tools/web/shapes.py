"""Thirty pages in the shapes of real ones: ten ways in which sites are built, each with texts in three languages.

What belongs to the article is told with the page, and so is what stands around it. They are as untidy as the web is:
tags left open, scripts in the middle, names that a machine has made, menus above and below.
"""

from collections.abc import Callable
from dataclasses import dataclass

SENTENCES = {
    "en": (
        "The harbour was built in a single winter, when the river had frozen down to its bed.",
        "Nobody wrote down who paid for the stones, but the quarry kept its own books, and they survive.",
        "A ship of that size needs two tides to come in, so pilots waited at the inn below the lighthouse.",
        "Engineers later found that the wall leans by four degrees, which is what has kept it standing.",
        "In spring the market moved to the quay, and with it the bakers, the ropemakers and their quarrels.",
    ),
    "uk": (
        "Пристань збудували за одну зиму, коли річка промерзла до самого дна, і люди ходили нею пішки.",
        "Ніхто не записав, хто платив за каміння, але каменярня вела власні книги, які збереглися досі.",
        "Кораблеві такого розміру потрібно два припливи, тому лоцмани чекали в корчмі під маяком.",
        "Згодом інженери з'ясували, що мур нахилений на чотири градуси, і саме це його тримає.",
        "Навесні ринок переїхав на набережну, а з ним пекарі, линварі та їхні давні суперечки.",
    ),
    "zh": (
        "港口是在一个冬天里建成的，那时河水一直冻到河床，人们可以在冰上行走。",
        "没有人记下石头的钱是谁付的，但采石场有自己的账本，这些账本一直保存到今天。",
        "这样大的船要等两次潮水才能进港，所以领航员们在灯塔下面的客栈里等候。",
        "后来工程师发现城墙倾斜了四度，正是这一点使它多年来没有倒塌。",
        "春天，集市搬到了码头上，面包师、制绳匠和他们的争吵也一起搬了过去。",
    ),
    "ar": (
        "بُني الميناء في شتاء واحد حين تجمد النهر حتى قاعه وصار الناس يمشون فوقه.",
        "لم يدوّن أحد من دفع ثمن الحجارة، لكن المحجر احتفظ بدفاتره الخاصة وقد بقيت إلى اليوم.",
        "تحتاج سفينة بهذا الحجم إلى مدّين لتدخل، ولذلك كان المرشدون ينتظرون في النزل تحت المنارة.",
        "اكتشف المهندسون لاحقًا أن الجدار مائل أربع درجات، وهذا ما أبقاه قائمًا طوال هذه السنين.",
        "في الربيع انتقل السوق إلى الرصيف، وانتقل معه الخبازون وصانعو الحبال وخصوماتهم القديمة.",
    ),
    "de": (
        "Der Hafen wurde in einem einzigen Winter gebaut, als der Fluss bis auf den Grund gefroren war.",
        "Niemand schrieb auf, wer die Steine bezahlte, doch der Steinbruch führte Bücher, die es noch gibt.",
        "Ein Schiff dieser Größe braucht zwei Fluten, darum warteten die Lotsen im Wirtshaus am Leuchtturm.",
        "Später fanden Ingenieure heraus, dass die Mauer um vier Grad geneigt ist und gerade deshalb steht.",
        "Im Frühling zog der Markt auf den Kai, und mit ihm die Bäcker, die Seiler und ihre Streitigkeiten.",
    ),
}
MENU = ("Front page", "Latest issues", "All departments", "Contact our desk", "Terms of service", "Work with us")
BESIDE = (
    "We use cookies and similar techniques to improve your experience on this site.",
    "Subscribe to our weekly letter and never miss a story again, dear reader.",
    "Ten gadgets that you cannot live without this summer",
    "Copyright of this website belongs to its publisher, all rights reserved.",
)


@dataclass(frozen=True, slots=True)
class MadePage:
    """A page, the paragraphs of its article, and lines that are none of it."""

    name: str
    html: str
    article: tuple[str, ...]
    beside: tuple[str, ...] = (*MENU, *BESIDE)


def make_pages() -> list[MadePage]:
    """Return all thirty, each with other paragraphs."""
    languages = [*SENTENCES]
    return [
        _make(shape, languages[(at + turn * 2) % len(languages)], at * 3 + turn)
        for at, shape in enumerate(_SHAPES)
        for turn in range(3)
    ]


def _make(shape: Callable[[str, list[str]], str], language: str, seed: int) -> MadePage:
    sentences = SENTENCES[language]
    paragraphs = [
        f"{seed}.{at}: "
        + " ".join(sentences[(at + seed + step) % len(sentences)] for step in range(2 + (at + seed) % 3))
        for at in range(6 + seed % 5)
    ]
    html = shape(f"Harbour {seed}", paragraphs)
    return MadePage(f"{shape.__name__.strip('_')}-{language}", html, tuple(paragraphs))


def _links(tag: str = "li", names: tuple[str, ...] = MENU) -> str:
    return "".join(f'<{tag}><a href="/{at}">{name}</a></{tag}>' for at, name in enumerate(names))


def _documentation(title: str, texts: list[str]) -> str:
    parts = "".join(
        f'<section id="part-{at}"><h2>Part {at}<a class="headerlink" href="#part-{at}">¶</a></h2><p>{text}</p>'
        f'<div class="highlight-python"><pre><span></span><span class="k">def</span> step_{at}():\n    pass</pre></div>'
        "</section>"
        for at, text in enumerate(texts)
    )
    return f"""<!doctype html><html><head><title>{title} &#8212; docs</title><style>p {{margin: 0}}</style></head><body>
    <div class="related" role="navigation"><h3>Navigation</h3><ul>{_links()}</ul></div>
    <div class="document"><div class="documentwrapper"><div class="bodywrapper"><div class="body" role="main">
    <section id="cookies"><h1>{title}</h1>{parts}</section></div></div></div>
    <div class="sphinxsidebar"><h3>Table of contents</h3><ul>{_links()}</ul><p class="caption">{BESIDE[1]}</p></div>
    </div><div class="footer">{BESIDE[3]}</div></body></html>"""


def _news(title: str, texts: list[str]) -> str:
    middle = len(texts) // 2
    body = "".join(f"<p>{text}</p>" for text in texts[1:middle])
    more = "".join(f"<p>{text}" for text in texts[middle:])
    return f"""<html><head><title>{title} | The Paper</title><script>var data = "<p>no text</p>";</script></head>
    <body class="has-sidebar"><div id="cookie-consent"><p>{BESIDE[0]}</p><button>Accept</button></div>
    <header class="site-header"><div class="logo">The Paper</div><nav><ul>{_links()}</ul></nav></header>
    <main><article><header><h1>{title}</h1><p class="lead">{texts[0]}</p><div class="share-bar">{_links("span")}</div>
    </header><figure><img src="/a.jpg" alt="harbour"><figcaption>The wall.</figcaption></figure>
    <div class="story">{body}<aside class="newsletter"><p>{BESIDE[1]}</p><form><input></form></aside>
    <div class="ad-slot"><p>{BESIDE[2]}</p></div>{more}</div></article>
    <section class="related-stories"><h2>Related</h2>{_links("h3")}</section></main>
    <footer><ul>{_links()}</ul><p>{BESIDE[3]}</p></footer></body></html>"""


def _forum(title: str, texts: list[str]) -> str:
    posts = "".join(
        f'<div class="post" id="p{at}"><div class="postprofile"><a href="/u/{at}">user{at}</a><br>Posts: {at * 7}</div>'
        f'<div class="postbody"><h3><a href="#p{at}">Re: {title}</a></h3><div class="content">{text}</div></div></div>'
        for at, text in enumerate(texts)
    )
    return f"""<html><head><title>{title} - forum</title></head><body><div id="wrap"><div id="page-header">
    <div class="navbar"><ul>{_links()}</ul></div></div><div id="page-body"><h2>{title}</h2>
    <div class="pagination"><ul>{_links(names=("1", "2", "3"))}</ul></div>{posts}
    <form method="post" action="/reply"><textarea></textarea><button>Reply</button></form></div>
    <div id="page-footer"><div class="navbar"><ul>{_links()}</ul></div><div class="copyright">{BESIDE[3]}</div></div>
    </div></body></html>"""


def _shop(title: str, texts: list[str]) -> str:
    rows = "".join(f"<tr><th>Feature {at}</th><td>{at * 11} mm</td></tr>" for at in range(6))
    reviews = "".join(f'<div class="review"><b>Customer {at}</b><p>{line}</p></div>' for at, line in enumerate(BESIDE))
    return f"""<html><head><title>Buy {title}</title></head><body><div class="topbar">
    <ul class="menu">{_links()}</ul></div>
    <div class="breadcrumbs">{_links("span")}</div><div class="product-page"><div class="gallery"><img src=1.jpg></div>
    <div class="product-info"><h1>{title}</h1><span class="price">19,99</span><button>Add to basket</button>
    <div class="description">{"".join(f"<p>{text}</p>" for text in texts)}<table class="specs">{rows}</table>
    </div></div>
    </div><div class="customer-reviews"><h2>Reviews</h2>{reviews}</div>
    <div class="upsell"><h2>Others also bought</h2><ul>{_links()}</ul></div>
    <div class="footer-links"><ul>{_links()}</ul>{BESIDE[3]}</div></body></html>"""


def _wiki(title: str, texts: list[str]) -> str:
    parts = "".join(
        f'<h2><span id="S{at}">Section {at}</span><span class="mw-editsection">[<a href="/e">edit</a>]</span></h2>\n'
        f'<p>{text.replace(", ", ", <a href=/w/x>", 1)}</a><sup><a href="#n{at}">[{at}]</a></sup></p>'
        for at, text in enumerate(texts)
    )
    box = "".join(f"<tr><th>Key {at}</th><td>{at}</td></tr>" for at in range(5))
    return f"""<html><head><title>{title} - wiki</title></head><body><div id="content" class="mw-body" role="main">
    <h1>{title}</h1><div id="siteNotice"></div><div id="mw-content-text"><table class="infobox">{box}</table>
    <div id="toc" class="toc"><ul>{_links()}</ul></div>{parts}<div class="navbox"><ul>{_links()}</ul></div></div></div>
    <div id="mw-navigation"><div class="portal"><h3>Tools</h3><ul>{_links()}</ul></div></div>
    <div id="footer" role="contentinfo"><p>{BESIDE[3]}</p></div></body></html>"""


def _table(title: str, texts: list[str]) -> str:
    rows = "".join(f"<tr><td>{at}<td>{text}<td>{at * 3.5}" for at, text in enumerate(texts))
    return f"""<html><head><title>{title}</title></head><body><ul class=nav>{_links()}</ul><div class=container>
    <h1>{title}</h1><table border=1><caption>Figures</caption><thead><tr><th>No<th>What<th>Value<tbody>{rows}</table>
    </div><div class=footer><p>{BESIDE[3]}</div>"""


def _soup(title: str, texts: list[str]) -> str:
    body = "".join(
        f'<div class="css-{at}x9f"><span>{text}</span></div><script>push({at}, "<div>")</script>'
        for at, text in enumerate(texts)
    )
    return f"""<html><head><title>{title}</title><body><div id=root><div class="css-1a"><div class="css-2b">
    {_links("div")}</div><div class="css-3c"><div class="css-4d"><div class="css-5e"><b>{title}</b></div>{body}</div>
    <div class="css-6f">{_links("div")}</div></div></div><div class="cookieBanner">{BESIDE[0]}</div>
    <div class="css-7g"><div>{_links("span")}"""


def _layout(title: str, texts: list[str]) -> str:
    body = "<br><br>\n".join(f"<font face=arial size=2>{text}</font>" for text in texts)
    menu = "<br>".join(f"<a href='/{at}'>{name}</a>" for at, name in enumerate(MENU))
    return f"""<HTML><HEAD><TITLE>{title}</TITLE></HEAD><BODY BGCOLOR=white><CENTER><TABLE WIDTH=800><TR>
    <TD COLSPAN=2><A HREF="/"><IMG SRC=logo.gif></A></TD></TR><TR><TD WIDTH=150 VALIGN=top>{menu}</TD>
    <TD><H1>{title}</H1>{body}<P></TD></TR></TABLE><HR>{menu}</CENTER></BODY></HTML>"""


def _blog(title: str, texts: list[str]) -> str:
    comments = "".join(f"<li class=comment><cite>guest {at}</cite><p>{BESIDE[2]}, they said</li>" for at in range(9))
    return f"""<html><head><title>{title} &raquo; notes</title></head><body><div id="page"><div id="header"><h1>
    <a href="/">Notes</a></h1></div><div id="main" class="site-main with-sidebar"><div class="post hentry">
    <h2 class="entry-title">{title}</h2><div class="entry-content">{"".join(f"<p>{text}" for text in texts)}</div>
    <div class="sharing"><ul>{_links()}</ul></div></div><div id="comments"><ol>{comments}</ol></div></div>
    <div id="sidebar"><div class="widget"><h3>Archive</h3><ul>{_links()}</ul></div><div class="widget">{BESIDE[1]}</div>
    </div></div><div id="footer">{BESIDE[3]}</div></body></html>"""


def _answers(title: str, texts: list[str]) -> str:
    question, *rest = texts
    answers = "".join(
        f'<div class="answer"><div class="votecell">{at}</div><div class="answercell"><div class="prose"><p>{text}</p>'
        f"<pre><code>make step{at} &amp;&amp; run</code></pre></div></div></div>"
        for at, text in enumerate(rest)
    )
    return f"""<!doctype html><html><head><title>{title}</title></head><body><header role="banner"><ol>{_links()}</ol>
    </header><div class="container"><div id="left-sidebar"><ol>{_links()}</ol></div><div id="content"><h1>{title}</h1>
    <div id="mainbar"><div class="question"><div class="s-prose"><p>{question}</p></div></div>
    <h2>{len(rest)} answers</h2>{answers}</div><div id="sidebar"><div class="linked"><ul>{_links()}</ul></div></div>
    </div></div>
    <div hidden><p>{BESIDE[1]}</p></div><footer>{BESIDE[3]}</footer></body></html>"""


_SHAPES = (_documentation, _news, _forum, _shop, _wiki, _table, _soup, _layout, _blog, _answers)
