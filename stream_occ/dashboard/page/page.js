"use strict";
/* Nothing that came from elsewhere becomes markup: text goes through textContent alone, and el() makes the elements. */

const N_SCORES = 60, SILENT_MS = 12000, ANSWER_MS = 8000, SURE_MS = 5000, PER_DAY = 24 * 3600 * 1000;
const SVG = "http://www.w3.org/2000/svg";
const STATES = {
  alarm: "▲ ALARM", pending: "◆ Pending: counting down", acknowledged: "● Acknowledged", checking: "◌ Being checked",
  suspected: "◌ Suspected", normal: "✓ Normal", waiting: "… Waiting: no window is scored", resolved: "Resolved",
  cancelled: "Cancelled", false_alarm: "False alarm", expired: "Expired",
};
const RANK = ["alarm", "pending", "acknowledged", "checking", "suspected"];
const REASONS = {
  k_of_n: "windows unlike normal activity", still: "no movement", posture: "posture has turned",
  not_recovered: "has not recovered", no_data: "the device fell silent", unscorable: "what came could not be scored",
  moving: "moves on", countdown: "nobody cancelled the countdown", repeat: "told again: nobody has acted",
  again: "another burst", reopened: "opened again", historical: "late data", learning: "the service is still learning",
  ack: "acknowledged", cancel: "cancelled", all_clear: "all clear", quiet: "quiet for long", feedback_fall: "said to be a fall",
  feedback_false_alarm: "said to be a false alarm",
};
const ACTS = {
  ack: { label: "Acknowledge", in: ["pending", "alarm"], body: { kind: "ack" } },
  cancel: { label: "Cancel", in: ["pending", "suspected", "checking"], body: { kind: "cancel" }, sure: true },
  clear: { label: "All clear", in: ["alarm", "acknowledged"], body: { kind: "cancel" }, sure: true },
  false: { label: "False alarm", in: RANK, body: { kind: "feedback", verdict: "false_alarm" }, sure: true },
  mute: { label: "Mute 1 h", in: RANK, body: { kind: "mute", minutes: 60 } },
};
const SAID = { ack: "Acknowledge", cancel: "Cancel or all clear", mute: "Mute", unmute: "Unmute", feedback: "False alarm" };

const $ = (id) => document.getElementById(id);
const wearers = new Map(), services = new Map(), alerts = new Map(), cards = new Map(), acted = new Map();
let me = { is_known: false, may_act: false, is_open: true, name: "" };
let source = null, heardAt = 0, openedAt = performance.now(), serverAhead = 0, health = null, isLoaded = false;
let isOld = false, view = "now", shownAlert = "", isSounding = false, audio = null, lastBeep = 0;

/* ---- small things */

function el(tag, given = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (name === "text") node.textContent = value;
    else if (name === "on") for (const [event, then] of Object.entries(value)) node.addEventListener(event, then);
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}
function svg(tag, given = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(given)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
function say(node, text) { if (node.textContent !== text) node.textContent = text; }
function hide(node, is) { if (node.hidden !== is) node.hidden = is; }
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayAndClock = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });
const now = () => Date.now() + serverAhead;
function time(ms) {
  if (!ms) return "never";
  return Math.abs(now() - ms) < PER_DAY / 2 ? clock.format(ms) : dayAndClock.format(ms);
}
const number = (value) => (value === null || value === undefined ? "–" : Number(value).toPrecision(3));
const stateText = (state) => STATES[state] || String(state);
const reasonText = (reason) => REASONS[reason] || String(reason);
const byName = new Intl.Collator(undefined, { numeric: true });

async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json", "X-Stream-OCC": "1" },
  };
  let answer;
  try { answer = await fetch(path, options); } catch { throw new Error("the dashboard cannot be reached"); }
  const content = await answer.json().catch(() => ({}));
  if (answer.status === 401 && path !== "api/login") begin();
  if (!answer.ok && !content.outcome) throw new Error(content.problem || `the dashboard answered ${answer.status}`);
  return content;
}

/* ---- who looks */

async function begin() {
  try { me = await ask("api/me"); } catch { setTimeout(begin, 3000); return; }
  document.body.classList.toggle("may-act", me.may_act);
  hide($("login"), me.is_known);
  hide($("leave"), !(me.is_known && me.has_login));
  hide($("name-line"), !(me.is_open && me.is_known));
  say($("who"), me.name ? `${me.name}${me.may_act ? "" : " (may look)"}` : "");
  if (me.is_known) listen(); else { stopListening(); say($("link"), "Not logged in"); }
  route();
}
$("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  say($("login-problem"), "");
  try {
    await ask("api/login", { name: form.elements.name.value, password: form.elements.password.value });
    form.reset();
    await begin();
    $("main").focus();
  } catch (error) { say($("login-problem"), error.message); }
});
$("leave").addEventListener("click", async () => {
  await ask("api/logout", {}).catch(() => {});
  location.reload();
});
try { $("name").value = localStorage.getItem("stream_occ_name") || ""; } catch { /* not kept, then */ }
$("name").addEventListener("change", () => { try { localStorage.setItem("stream_occ_name", $("name").value.trim()); } catch { /* as above */ } });

/* ---- what comes */

function listen() {
  if (source) return;
  source = new EventSource("api/stream");
  source.onmessage = (event) => { heardAt = performance.now(); take(JSON.parse(event.data)); };
  source.onerror = () => {
    if (source && source.readyState === EventSource.CLOSED) { stopListening(); setTimeout(begin, 2000); }
    tellLink();
  };
}
function stopListening() { if (source) source.close(); source = null; }

function take(told) {
  serverAhead = told.now_ms - Date.now();
  health = told.health;
  if (told.whole) { for (const id of [...wearers.keys()]) removeWearer(id); services.clear(); isLoaded = true; }
  for (const each of told.wearers || []) takeWearer(each);
  for (const each of told.services || []) services.set(each.instance, each);
  for (const each of told.notices || []) takeNotice(each);
  if (told.alerts) takeAlerts(told.alerts, told.whole);
  if (told.whole || (told.wearers || []).length) tellCounts();
  if (told.services && view === "system") showSystem();
  tellLink();
}

function takeNotice(notice) {
  if (notice.kind === "gone") removeWearer(notice.device);
  if (notice.kind === "act" && notice.alert_id) {
    acted.set(notice.alert_id, { at: performance.now(), text: `${notice.by} pressed ${SAID[notice.act] || notice.act}; the service has not answered yet.` });
    const card = cards.get(notice.alert_id);
    if (card) tellCard(card);
  }
  if (notice.kind === "change" && shownAlert === notice.alert_id) showAlert(shownAlert);
}

/* ---- wearers */

const seenOnScreen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const tile = wearers.get(entry.target.dataset.id);
    if (!tile) continue;
    tile.isVisible = entry.isIntersecting;
    if (tile.isVisible && tile.isDirty) drawSpark(tile);
  }
}, { rootMargin: "200px" });

function makeTile(id) {
  const tile = { id, scores: [], isVisible: false, isDirty: true, told: {}, answer: "" };
  tile.state = el("p", { class: "state" });
  tile.limit = svg("line", { class: "limit", x1: 0, x2: 100 });
  tile.line = svg("polyline", { class: "line", points: "" });
  tile.spark = svg("svg", { class: "spark", viewBox: "0 0 100 30", preserveAspectRatio: "none", "aria-hidden": "true" }, tile.limit, tile.line);
  tile.score = el("p", { class: "score" });
  tile.seen = el("p", { class: "seen" });
  tile.faults = el("p", { class: "faults" });
  tile.mute = el("button", { type: "button", class: "mute", on: { click: () => muteOf(tile) } });
  tile.node = el("li", { class: "wearer", "data-id": id }, el("h3", { text: id }), tile.state, tile.spark, tile.score, tile.seen, tile.faults, tile.mute);
  const after = [...wearers.values()].filter((each) => byName.compare(each.id, id) > 0).sort((a, b) => byName.compare(a.id, b.id))[0];
  $("wearers").insertBefore(tile.node, after ? after.node : null);
  wearers.set(id, tile);
  seenOnScreen.observe(tile.node);
  return tile;
}
function removeWearer(id) {
  const tile = wearers.get(id);
  if (!tile) return;
  seenOnScreen.unobserve(tile.node);
  tile.node.remove();
  wearers.delete(id);
}
function takeWearer(told) {
  const tile = wearers.get(told.id) || makeTile(told.id);
  const scores = told.new;
  tile.told = told;
  if (scores.length) {
    tile.scores.push(...scores);
    if (tile.scores.length > N_SCORES) tile.scores.splice(0, tile.scores.length - N_SCORES);
    if (tile.isVisible) drawSpark(tile); else tile.isDirty = true;
  }
  tellTile(tile);
}
const staleMs = () => (health ? health.stale_s : 35) * 1000;
function isStale(told) { return now() - told.heard_ms > staleMs() && (told.heard_ms > 0 || performance.now() - openedAt > staleMs()); }
function lookOf(told) {
  if (RANK.includes(told.state)) return told.state;
  if (isOld || told.online === false || isStale(told)) return "off";
  return (told.faults || []).length ? "fault" : "ok";
}
function tellTile(tile) {
  const told = tile.told, look = lookOf(told);
  let text = told.state ? stateText(told.state) : "Nothing told yet";
  if (told.online === false) text = RANK.includes(told.state) ? `${text}; ○ offline` : "○ Offline: no usable data";
  else if (isStale(told)) text = `? Stale: ${told.heard_ms ? `not heard of since ${time(told.heard_ms)}` : "only what the broker kept"}`;
  if (told.not_worn) text += "; not worn";
  if (told.learning) text += "; learning";
  if (isOld) text = `? Not live. Last known: ${text}`;
  say(tile.state, text);
  const score = tile.scores.length ? tile.scores[tile.scores.length - 1] : told.score;
  say(tile.score, score === null || score === undefined ? "No score yet" : `Score ${number(score)}, limit ${number(told.threshold)}`);
  say(tile.seen, told.last_seen ? `Last seen ${time(Date.parse(told.last_seen))}` : "Last seen: not since the service started");
  const faults = told.faults || [];
  hide(tile.faults, !faults.length);
  say(tile.faults, faults.length ? `⚠ ${faults.join(", ")}` : "");
  const muted = told.muted_until && Date.parse(told.muted_until) > now();
  hide(tile.mute, !me.may_act);
  say(tile.mute, tile.answer || (muted ? `Unmute (muted until ${time(Date.parse(told.muted_until))})` : "Mute 1 h"));
  tile.mute.setAttribute("aria-label", `${tile.mute.textContent}: ${tile.id}`);
  if (tile.node.dataset.look !== look) tile.node.dataset.look = look;
  const find = $("find").value.trim().toLowerCase();
  hide(tile.node, (find !== "" && !tile.id.toLowerCase().includes(find)) || ($("only-trouble").checked && look === "ok"));
}
function drawSpark(tile) {
  tile.isDirty = false;
  const limit = tile.told.threshold || 1, top = Math.min(Math.max(1.5 * limit, ...tile.scores), 4 * limit);
  const y = (value) => (29 - 28 * Math.min(Math.max(value / top, 0), 1)).toFixed(1);
  const step = 100 / (N_SCORES - 1), first = 100 - (tile.scores.length - 1) * step;
  tile.line.setAttribute("points", tile.scores.map((value, i) => `${(first + i * step).toFixed(1)},${y(value)}`).join(" "));
  tile.limit.setAttribute("y1", y(limit));
  tile.limit.setAttribute("y2", y(limit));
}
function tellCounts() {
  say($("n-wearers"), `(${wearers.size})`);
  hide($("no-wearers"), !isLoaded || wearers.size > 0);
  hide($("none-found"), !wearers.size || [...wearers.values()].some((tile) => !tile.node.hidden));
}
function filterWearers() { for (const tile of wearers.values()) tellTile(tile); tellCounts(); }
$("find").addEventListener("input", filterWearers);
$("only-trouble").addEventListener("change", filterWearers);

async function muteOf(tile) {
  const by = whoActs();
  if (by === null) return;
  const muted = tile.told.muted_until && Date.parse(tile.told.muted_until) > now();
  tile.answer = "Sent…";
  tellTile(tile);
  try {
    const { outcome } = await ask("api/act", muted ? { device: tile.id, kind: "unmute", by } : { device: tile.id, kind: "mute", minutes: 60, by });
    tile.answer = outcome === "taken" ? "" : outcomeText(outcome);
  } catch (error) { tile.answer = `Not sent: ${error.message}`; }
  tellTile(tile);
  if (tile.answer) setTimeout(() => { tile.answer = ""; tellTile(tile); }, SURE_MS);
}

/* ---- alerts */

function takeAlerts(list, isWhole) {
  const before = new Map(alerts);
  alerts.clear();
  for (const each of list) alerts.set(each.alert_id, each);
  for (const [id, card] of [...cards]) if (!alerts.has(id)) { card.node.remove(); cards.delete(id); acted.delete(id); }
  const order = [...alerts.values()].sort((a, b) => RANK.indexOf(a.state) - RANK.indexOf(b.state) || a.since_ms - b.since_ms);
  const focused = document.activeElement;
  let next = $("alerts").firstElementChild;
  for (const alert of order) {
    const card = cards.get(alert.alert_id) || makeCard(alert);
    const was = before.get(alert.alert_id);
    if (was && was.seq !== alert.seq) { acted.delete(alert.alert_id); card.answer = ""; }
    card.alert = alert;
    tellCard(card);
    if (card.node === next) next = next.nextElementSibling;
    else $("alerts").insertBefore(card.node, next);
    if (!isWhole && (!was || was.state !== alert.state)) speak(alert);
  }
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus();
  hide($("no-alerts"), !isLoaded || alerts.size > 0);
  say($("n-alerts"), alerts.size ? `(${alerts.size})` : "");
  const loud = order.filter((each) => each.state === "alarm" || each.state === "pending").length;
  document.title = loud ? `(${loud}) ▲ stream_occ` : "stream_occ";
  beep();
}
function makeCard(alert) {
  const card = { alert, answer: "", buttons: {} };
  card.what = el("span", { class: "what" });
  card.clock = el("span", { class: "clock" });
  card.why = el("p");
  card.since = el("p");
  card.by = el("p");
  card.said = el("p", { class: "answer", role: "status" });
  const acts = el("div", { class: "acts" });
  for (const [name, act] of Object.entries(ACTS)) {
    const button = el("button", { type: "button", "data-act": name, text: act.label, on: { click: () => press(card, name) } });
    card.buttons[name] = button;
    acts.append(button);
  }
  card.acts = acts;
  const details = el("p", {}, el("a", { href: `#alert/${encodeURIComponent(alert.alert_id)}`, text: `Details of ${alert.device}` }));
  card.node = el("li", { class: "alert", "data-alert": alert.alert_id, "data-device": alert.device },
    el("div", { class: "head" }, card.what, el("h3", { text: alert.device }), card.clock),
    el("div", { class: "body" }, card.why, card.since, card.by, acts, card.said, details));
  cards.set(alert.alert_id, card);
  return card;
}
function tellCard(card) {
  const alert = card.alert, level = alert.evidence.level || 0;
  if (card.node.dataset.state !== alert.state) card.node.dataset.state = alert.state;
  say(card.what, stateText(alert.state) + (level > 0 ? `, level ${level}` : "") + (alert.evidence.muted ? " (muted)" : ""));
  const told = alert.reasons.map(reasonText);
  if (alert.evidence.still_s) told.push(`still for ${number(alert.evidence.still_s)} s`);
  if (alert.evidence.posture_deg) told.push(`turned by ${Math.round(alert.evidence.posture_deg)}°`);
  say(card.why, `Why: ${told.join("; ")}`);
  say(card.since, `First told ${time(alert.since_ms)}; highest score ${number(alert.evidence.peak_score ?? alert.score)}`);
  hide(card.by, !alert.by);
  say(card.by, alert.by ? `Last act by ${alert.by}` : "");
  hide(card.acts, !me.may_act);
  for (const [name, act] of Object.entries(ACTS)) {
    const button = card.buttons[name];
    hide(button, !act.in.includes(alert.state));
    say(button, button.dataset.sure ? `${act.label}: sure? Press again` : act.label);
    button.classList.toggle("sure", Boolean(button.dataset.sure));
  }
  const pressed = acted.get(alert.alert_id);
  const late = pressed && performance.now() - pressed.at > ANSWER_MS;
  say(card.said, late ? `${pressed.text} Is the service online?` : card.answer || (pressed ? pressed.text : ""));
  tellClock(card);
}
function tellClock(card) {
  const alert = card.alert;
  if (alert.state === "pending" && alert.deadline_ms) {
    const left = Math.ceil((alert.deadline_ms - now()) / 1000);
    say(card.clock, left > 0 ? `alarm in ${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}` : "countdown is over");
  } else say(card.clock, `since ${time(alert.since_ms)}`);
}
function whoActs() {
  if (!me.is_open) return "";
  const by = $("name").value.trim();
  if (by) return by;
  $("name").focus();
  say($("spoken"), "Say who you are first: your name is told to others.");
  $("name").setAttribute("placeholder", "Say who you are first");
  return null;
}
const outcomeText = (outcome) => ({
  unheard: "Sent, but no service listens.", refused: "The broker refused it: its access list forbids it.",
  not_sent: "Not sent: the dashboard has no broker.", waiting: "Not confirmed by the broker yet.",
}[outcome] || "Sent; waiting for the service.");
async function press(card, name) {
  const act = ACTS[name], button = card.buttons[name];
  if (act.sure && !button.dataset.sure) {
    button.dataset.sure = "1";
    tellCard(card);
    setTimeout(() => { delete button.dataset.sure; tellCard(card); }, SURE_MS);
    return;
  }
  delete button.dataset.sure;
  const by = whoActs();
  if (by === null) { card.answer = "Say who you are first."; tellCard(card); return; }
  card.answer = "Sending…";
  tellCard(card);
  try {
    const seq = card.alert.seq;
    const { outcome } = await ask("api/act", { device: card.alert.device, alert_id: card.alert.alert_id, by, ...act.body });
    card.answer = card.alert.seq === seq ? outcomeText(outcome) : "";
    if (outcome === "taken") setTimeout(() => { card.answer = ""; tellCard(card); }, ANSWER_MS - 1000);
  } catch (error) { card.answer = `Not sent: ${error.message}.`; }
  tellCard(card);
}
function speak(alert) {
  if (alert.state === "alarm") say($("spoken"), `Alarm: ${alert.device}`);
  else if (alert.state === "pending") say($("spoken"), `Alert pending: ${alert.device}`);
  else if (alert.state === "acknowledged") say($("spoken"), `${alert.device} acknowledged${alert.by ? ` by ${alert.by}` : ""}`);
}
$("sound").addEventListener("click", () => {
  isSounding = !isSounding;
  $("sound").setAttribute("aria-pressed", String(isSounding));
  say($("sound"), `Sound: ${isSounding ? "on" : "off"}`);
  if (isSounding) { audio = audio || new AudioContext(); audio.resume(); lastBeep = 0; beep(); }
});
function beep() {
  const loud = [...alerts.values()].find((each) => each.state === "alarm") || [...alerts.values()].find((each) => each.state === "pending");
  if (!isSounding || !audio || !loud || performance.now() - lastBeep < 8000) return;
  lastBeep = performance.now();
  const n = loud.state === "alarm" ? 3 : 1;
  for (let i = 0; i < n; i++) {
    const tone = audio.createOscillator(), gain = audio.createGain(), at = audio.currentTime + 0.35 * i;
    tone.frequency.value = 880;
    gain.gain.setValueAtTime(0.2, at);
    gain.gain.exponentialRampToValueAtTime(0.001, at + 0.3);
    tone.connect(gain).connect(audio.destination);
    tone.start(at);
    tone.stop(at + 0.3);
  }
}

/* ---- whether it is true */

function tellLink() {
  const isCut = performance.now() - heardAt > SILENT_MS || !source || source.readyState !== EventSource.OPEN;
  const problems = [];
  if (me.is_known && isLoaded && isCut)
    problems.push(`No connection to the dashboard since ${clock.format(Date.now() - (performance.now() - heardAt))}: what is below is old.`);
  else if (isLoaded && health && !health.connected)
    problems.push(`The dashboard has no connection to the broker: what is below is old.${health.trouble ? ` (${health.trouble})` : ""}`);
  for (const each of services.values()) if (each.online === false) problems.push(`Service ${each.instance} is offline: its wearers are not watched.`);
  if (health && health.failures.history) problems.push("The history cannot be written: look at the disk.");
  if (isLoaded && health && health.connected && !isCut && !services.size) problems.push("No service has said that it is there.");
  const box = $("banners");
  if (box.dataset.told !== problems.join("\n")) {
    box.dataset.told = problems.join("\n");
    box.replaceChildren(...problems.map((text) => el("p", { class: "banner", role: "alert", text })));
  }
  const isDeaf = isLoaded && (isCut || !(health && health.connected) || (services.size > 0 && [...services.values()].every((each) => each.online === false)));
  if (isDeaf !== isOld) { isOld = isDeaf; filterWearers(); }
  if (me.is_known) say($("link"), !isLoaded ? "Loading" : isCut ? "✕ Disconnected" : health && health.connected ? "● Live" : "✕ No broker");
  for (const node of document.querySelectorAll("#now .loading")) hide(node, isLoaded);
}
setInterval(() => { for (const card of cards.values()) tellCard(card); tellLink(); beep(); }, 1000);
setInterval(() => { if (view === "now") filterWearers(); }, 5000);

/* ---- pages */

function route() {
  const [to, id] = (location.hash.slice(1) || "now").split("/");
  view = ["now", "history", "alert", "trends", "system"].includes(to) ? to : "now";
  shownAlert = "";
  for (const node of document.querySelectorAll(".view")) hide(node, !me.is_known || node.id !== view);
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.to === view) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  if (!me.is_known) return;
  if (view === "history") showHistory(false);
  if (view === "alert") { try { showAlert(decodeURIComponent(id || "")); } catch { location.hash = "history"; } }
  if (view === "trends") showTrends();
  if (view === "system") showSystem();
}
addEventListener("hashchange", () => { route(); $("main").focus(); });

let oldestRow = null, historyAsked = 0;
async function showHistory(isMore) {
  const form = $("filters").elements, asked = new URLSearchParams(), turn = ++historyAsked;
  if (form.device.value.trim()) asked.set("device", form.device.value.trim());
  if (form.state.value) asked.set("state", form.state.value);
  if (form.from.value) asked.set("from_ms", String(new Date(`${form.from.value}T00:00`).getTime()));
  if (form.to.value) { const end = new Date(`${form.to.value}T00:00`); end.setDate(end.getDate() + 1); asked.set("to_ms", String(end.getTime())); }
  if (isMore && oldestRow) asked.set("before", String(oldestRow));
  say($("history-state"), "Loading…");
  try {
    const found = await ask(`api/alerts?${asked}`);
    if (turn !== historyAsked) return;
    const rows = found.alerts.map((each) => el("tr", {},
      el("td", {}, el("a", { href: `#alert/${encodeURIComponent(each.alert_id)}`, text: dayAndClock.format(each.first_ms) })),
      el("td", { text: each.device }), el("td", { text: stateText(each.state) }), el("td", { text: each.by || "–" }),
      el("td", { class: "number", text: number(each.peak_score) }), el("td", { class: "number", text: String(each.n_changes) })));
    if (isMore) $("history-rows").append(...rows); else $("history-rows").replaceChildren(...rows);
    if (found.alerts.length) oldestRow = found.alerts[found.alerts.length - 1].row;
    hide($("more"), !found.more);
    say($("history-state"), $("history-rows").children.length ? "" : "No alert fits. Alerts are kept from the first start of the dashboard on.");
  } catch (error) { say($("history-state"), `Not loaded: ${error.message}.`); }
}
$("filters").addEventListener("submit", (event) => { event.preventDefault(); showHistory(false); });
$("more").addEventListener("click", () => showHistory(true));

function pairs(entries) {
  const list = el("dl");
  for (const [name, value] of entries) list.append(el("dt", { text: name }), el("dd", { text: String(value) }));
  return list;
}
async function showAlert(id) {
  shownAlert = id;
  const body = $("alert-body");
  if (body.dataset.id !== id) { body.replaceChildren(el("p", { class: "quiet", text: "Loading…" })); body.dataset.id = id; }
  let found;
  try { found = await ask(`api/alerts/${encodeURIComponent(id)}`); } catch (error) {
    body.replaceChildren(el("p", { class: "quiet", text: `Not loaded: ${error.message}.` }));
    return;
  }
  if (shownAlert !== id) return;
  const last = found.changes[found.changes.length - 1], peak = Math.max(...found.changes.map((each) => each.evidence.peak_score ?? each.score));
  say($("alert-title"), `Alert of ${last.device}: ${stateText(last.state)}`);
  const timeline = [
    ...found.changes.map((each) => [each.heard_ms, `${stateText(each.state)}: ${each.reasons.map(reasonText).join("; ")}${each.by ? ` (last act by ${each.by})` : ""}`]),
    ...found.acts.map((each) => [each.t_ms, `${each.by} pressed ${SAID[each.kind] || each.kind} here (broker: ${each.outcome || "no answer"})`]),
  ].sort((a, b) => a[0] - b[0]);
  body.replaceChildren(
    pairs([["Wearer", last.device], ["State", stateText(last.state)], ["First told", dayAndClock.format(found.changes[0].heard_ms)],
      ["Highest score", number(peak)], ["Limit", number(last.evidence.threshold)], ["Model", last.model], ["Alert", id]]),
    el("h2", { text: "What happened" }),
    el("ol", { class: "line" }, ...timeline.map(([ms, text]) => el("li", { text: `${dayAndClock.format(ms)}: ${text}` }))),
    el("h2", { text: "What made the score" }), contributions(last.contributions),
    el("h2", { text: "Signals around it" }), ...signals(found.waveforms));
}
function contributions(list) {
  if (!list.length) return el("p", { class: "quiet", text: "The model explains nothing of this alert." });
  const largest = Math.max(...list.map(([, z]) => Math.abs(z)), 1e-9);
  const rows = list.map(([name, z]) => el("tr", {}, el("th", { scope: "row", text: name }), el("td", { class: "number", text: `${z > 0 ? "+" : ""}${number(z)}` }), el("td", {}, meter(Math.abs(z) / largest))));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Features" }, el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col", text: "Feature" }), el("th", { scope: "col", text: "Robust z from normal" }), el("th", { scope: "col", text: "Size" }))), el("tbody", {}, ...rows)));
}
function meter(share, kind = "") {
  const width = (120 * Math.min(Math.max(share, 0), 1)).toFixed(1);
  return svg("svg", { class: `meter ${kind}`, width: 122, height: 12, viewBox: "0 0 122 12", "aria-hidden": "true" }, svg("rect", { width, height: 12 }));
}
function signals(list) {
  const shown = list.filter((each) => each.rows.length > 1);
  if (!shown.length) return [el("p", { class: "quiet", text: "None came: a service tells them where output.publish_waveform is true." })];
  const each = shown[shown.length - 1];
  return [chart(each, 0, "Acceleration, m/s²"), chart(each, 3, "Rotation, rad/s")];
}
function chart(waveform, first, title) {
  const width = 720, height = 220, left = 48, rows = waveform.rows, n = rows.length;
  const values = rows.flatMap((row) => row.slice(first, first + 3)), low = Math.min(...values), high = Math.max(...values, low + 1e-6);
  const x = (i) => left + ((width - left - 8) * i) / (n - 1), y = (value) => 10 + ((height - 40) * (high - value)) / (high - low);
  const label = (at, top, text) => { const node = svg("text", { x: at, y: top }); node.textContent = text; return node; };
  const names = ["x (solid)", "y (long dashes)", "z (dots)"];
  return el("figure", {}, el("figcaption", { text: `${title}: ${names.join(", ")}; ${number((n - 1) / waveform.rate_hz)} s from ${time(Date.parse(waveform.t0))}, from ${number(low)} to ${number(high)}` }),
    svg("svg", { class: "signals", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title },
      ...[0, 1, 2].map((axis) => svg("path", { class: `c${axis}`, d: rows.map((row, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(row[first + axis]).toFixed(1)}`).join("") })),
      label(2, 20, number(high)), label(2, height - 32, number(low)), label(left, height - 8, "0 s"), label(width - 60, height - 8, `${number((n - 1) / waveform.rate_hz)} s`)));
}

async function showTrends() {
  const body = $("trends-body"), days = Number($("trend-form").elements.days.value);
  body.replaceChildren(el("p", { class: "quiet", text: "Loading…" }));
  let found;
  try { found = await ask(`api/trends?days=${days}`); } catch (error) {
    body.replaceChildren(el("p", { class: "quiet", text: `Not loaded: ${error.message}.` }));
    return;
  }
  const byDay = new Map();
  const day = (hour) => {
    const at = new Date(hour * 3600 * 1000), key = new Date(at.getFullYear(), at.getMonth(), at.getDate()).getTime();
    if (!byDay.has(key)) byDay.set(key, { alerts: 0, falseAlarms: 0, hours: 0 });
    return byDay.get(key);
  };
  for (const each of found.alerts) { const to = day(each.hour); to.alerts += each.n; if (each.state === "false_alarm") to.falseAlarms += each.n; }
  for (const each of found.worn) day(each.hour).hours += each.hours;
  if (!byDay.size) { body.replaceChildren(el("p", { class: "quiet", text: "Nothing is known of these days yet." })); return; }
  const total = { alerts: 0, falseAlarms: 0, hours: 0 };
  for (const each of byDay.values()) for (const key of Object.keys(total)) total[key] += each[key];
  const most = Math.max(...[...byDay.values()].map((each) => each.falseAlarms), 1), longest = Math.max(...[...byDay.values()].map((each) => each.hours), 1e-9);
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
  const rows = [...byDay].sort((a, b) => b[0] - a[0]).map(([key, each]) => el("tr", {}, el("th", { scope: "row", text: format.format(key) }),
    el("td", { class: "number", text: String(each.alerts) }), el("td", { class: "number", text: String(each.falseAlarms) }), el("td", {}, meter(each.falseAlarms / most, "false")),
    el("td", { class: "number", text: each.hours.toFixed(1) }), el("td", {}, meter(each.hours / longest))));
  const head = ["Day", "Alerts", "Said to be false", "", "Hours worn", ""].map((text) => (text ? el("th", { scope: "col", text }) : el("td")));
  const rate = total.hours >= 1 ? `${number((24 * total.falseAlarms) / total.hours)} false alarms a day of wear` : "too few hours for a rate";
  body.replaceChildren(el("p", { text: `${total.alerts} alerts, ${total.falseAlarms} of them said to be false, in ${total.hours.toFixed(1)} hours of wear: ${rate}. What nobody called false is not counted as such.` }),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Days" }, el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows))));
}
$("trend-form").addEventListener("change", showTrends);
$("trend-form").addEventListener("submit", (event) => event.preventDefault());

function counts(content) {
  const entries = Object.entries(content || {}).filter(([, n]) => n);
  return entries.length ? entries.map(([name, n]) => `${name} ${n}`).join(", ") : "none";
}
function showSystem() {
  const faulty = new Map();
  for (const tile of wearers.values()) for (const fault of tile.told.faults || []) faulty.set(fault, (faulty.get(fault) || 0) + 1);
  const parts = [el("h2", { text: "Broker" })];
  if (health) parts.push(pairs([["Connection", health.connected ? "● connected" : `✕ none${health.trouble ? `: ${health.trouble}` : ""}`], ["Connections made", health.connects],
    ["Messages that could not be used", counts(health.refused)], ["Own failures", counts(health.failures)], ["Dashboard", me.version || ""]]));
  parts.push(el("h2", { text: "Services" }));
  if (!services.size) parts.push(el("p", { class: "quiet", text: "No service has said that it is there." }));
  for (const each of [...services.values()].sort((a, b) => byName.compare(a.instance, b.instance))) {
    const c = each.counters;
    parts.push(el("h3", { text: each.instance }), pairs([["Status", each.online ? "● online" : each.online === false ? "✕ offline" : "? not told"],
      ...(c ? [["Started", dayAndClock.format(Date.parse(c.started))], ["Devices", c.devices], ["Messages", `${c.messages}${each.messages_per_s === null ? "" : ` (${number(each.messages_per_s)} a second)`}`],
        ["Windows scored", c.windows], ["Waiting messages", c.queue], ["Refused", counts(c.refused)], ["Dropped", counts(c.dropped)], ["Connections", c.connects], ["Told at", time(each.heard_ms)]] : [])]));
  }
  parts.push(el("h2", { text: "Faults of wearers" }));
  parts.push(faulty.size ? pairs([...faulty].sort((a, b) => b[1] - a[1]).map(([name, n]) => [name, `${n} of ${wearers.size}`])) : el("p", { class: "quiet", text: "None now." }));
  $("system-body").replaceChildren(...parts);
}
setInterval(() => { if (view === "system") showSystem(); }, 5000);

begin();
