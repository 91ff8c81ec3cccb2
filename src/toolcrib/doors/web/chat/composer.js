// Where something is written, spoken or dropped, and sent: at once, into the turn that runs, or behind it.

import { h, icon, put } from "../dom.js";

const MAX_FILES = 8,
  MAX_PICTURE = 5 * 1024 * 1024,
  MAX_RECORDING = 10 * 1024 * 1024,
  MAX_TEXT = 200_000; // bytes
const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

const drafts = new Map(); // what was written in a session and not sent: {text, files}
document.addEventListener("signout", () => drafts.clear());

// Return the composer of a session; `send({message, attachments, queue})` says whether it was taken.
export function drawComposer(app, { session, send, stop }) {
  const { gateway, t } = app,
    name = session.replace(/^agent:main:/, "");
  const readDraft = () => drafts.get(name) ?? { text: "", files: [] };
  let { files } = readDraft(),
    recorder = null,
    isRunning = false;

  const field = h("textarea", {
    rows: 1,
    placeholder: t("chat.write"),
    "aria-label": t("chat.write"),
    onkeydown: onKey,
    oninput: keep,
    onpaste: onPaste,
    dir: "auto",
  });
  const chips = h("ul", { class: "files", hidden: true });
  const takePicked = () => (addFiles(picker.files), (picker.value = ""));
  const picker = h("input", { type: "file", multiple: true, hidden: true, onchange: takePicked });
  const button = (name, onclick, about, child) =>
    h(
      "button",
      { type: "button", "aria-label": t(`chat.${name}`), title: t(`chat.${name}`), onclick, ...about },
      child,
    );
  const clip = button("attach", () => picker.click(), { class: "bare" }, icon("clip"));
  const mic = button("record", record, { class: "bare", hidden: true, "aria-pressed": "false" }, icon("mic"));
  const halt = button("stop", stop, { hidden: true, class: "danger" }, icon("stop"));
  const sendLater = () => submit("followup");
  const later = h(
    "button",
    { type: "button", hidden: true, title: t("chat.followup.why"), onclick: sendLater },
    t("chat.followup"),
  );
  const go = h("button", { class: "main" }, t("chat.send"));
  const onSubmit = (event) => (event.preventDefault(), submit(isRunning ? "steer" : "wait"));
  const element = h(
    "form",
    { class: "composer", onsubmit: onSubmit },
    chips,
    field,
    h(
      "div",
      { class: "row" },
      clip,
      picker,
      mic,
      h("span", { class: "grow soft hint" }, t("chat.hint")),
      halt,
      later,
      go,
    ),
  );
  offerVoice();
  queueMicrotask(() => setDraft(readDraft().text, files)); // as soon as it has a height

  function onKey(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit(!isRunning ? "wait" : event.altKey ? "followup" : "steer");
  }

  function fit() {
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight + 2, 240)}px`;
  }

  function keep() {
    drafts.set(name, { text: field.value, files });
    fit();
  }

  async function submit(queue) {
    const message = field.value.trim();
    if (!message && !files.length) return;
    const given = { text: field.value, files };
    setDraft("", []);
    const attachments = given.files.map(({ name, type, content }) => ({ content, mimeType: type, fileName: name }));
    if (await send({ message, attachments, queue })) return;
    const since = readDraft(); // nothing that was written is lost, neither before nor meanwhile
    setDraft([given.text, since.text].filter(Boolean).join("\n\n"), [...given.files, ...since.files]);
  }

  function setDraft(text, kept) {
    field.value = text;
    files = kept;
    drawFiles();
  }

  function onPaste(event) {
    if (!event.clipboardData.files.length) return;
    event.preventDefault();
    addFiles(event.clipboardData.files);
  }

  function onDrag(event) {
    if (!event.dataTransfer.types.includes("Files")) return; // words go where they are dropped
    event.preventDefault();
    if (event.type === "drop") addFiles(event.dataTransfer.files);
  }

  async function addFiles(given) {
    for (const file of [...given]) {
      const isPicture = PICTURES.includes(file.type),
        isSound = /^(audio|video)\//.test(file.type);
      if (!isPicture && !isSound) await addText(file);
      else if (files.length >= MAX_FILES) app.say(t("chat.file.many", { count: MAX_FILES }));
      else if (file.size > (isPicture ? MAX_PICTURE : MAX_RECORDING))
        app.say(t("chat.file.large", { name: file.name }));
      else files = [...files, { name: file.name, type: file.type, content: await readBase64(file) }];
    }
    drawFiles();
    field.focus();
  }

  // A file of words goes into the message, where it can be read before it is sent.
  async function addText(file) {
    const text = file.size <= MAX_TEXT ? await file.text() : "";
    if (!text || text.includes("\0")) return app.say(t("chat.file.kind", { name: file.name }));
    field.value = `${field.value}${field.value ? "\n\n" : ""}${file.name}:\n\`\`\`\n${text}\n\`\`\`\n`;
  }

  function drawFiles() {
    chips.hidden = !files.length;
    put(
      chips,
      files.map((file) =>
        h(
          "li",
          { class: "chip" },
          file.name,
          h(
            "button",
            {
              type: "button",
              class: "bare",
              "aria-label": t("chat.file.remove", { name: file.name }),
              onclick: () => ((files = files.filter((each) => each !== file)), drawFiles(), field.focus()),
            },
            icon("close"),
          ),
        ),
      ),
    );
    keep();
  }

  function offerVoice() {
    const canHear = gateway.has("stt.transcribe") && gateway.may("operator.admin");
    mic.hidden = !(navigator.mediaDevices?.getUserMedia && window.MediaRecorder && canHear);
  }

  // Press to speak, press again to have it written down; nothing is sent before somebody has read it.
  async function record() {
    if (recorder) return recorder.stop();
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
      const pieces = [];
      recorder = new MediaRecorder(stream);
      recorder.addEventListener("dataavailable", ({ data }) => pieces.push(data));
      recorder.addEventListener("stop", () => {
        stream.getTracks().forEach((each) => each.stop());
        mic.setAttribute("aria-pressed", "false");
        const { mimeType } = recorder;
        recorder = null;
        transcribe(new Blob(pieces, { type: mimeType }));
      });
      recorder.start();
      mic.setAttribute("aria-pressed", "true");
    } catch (error) {
      recorder = null;
      app.say(t("chat.record.failed", { error: error.message }));
    }
  }

  async function transcribe(blob) {
    try {
      const { text } = await gateway.ask("stt.transcribe", { audio: await readBase64(blob) });
      setDraft([field.value, text].filter(Boolean).join(" "), files);
      field.focus();
    } catch (error) {
      app.say(error.message);
    }
  }

  return {
    element,
    onDrag,
    focus: () => field.focus(),
    setRunning(is) {
      isRunning = is;
      halt.hidden = later.hidden = !is;
      go.textContent = t(is ? "chat.steer" : "chat.send");
    },
    stop: () => recorder?.stop(),
  };
}

function readBase64(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(String(reader.result).replace(/^[^,]*,/, "")));
    reader.addEventListener("error", () => reject(reader.error));
    reader.readAsDataURL(blob);
  });
}
