// Live pages and keys. Every page works without this file; it only refreshes what the server renders.
"use strict";
(() => {
  const live = document.getElementById("live");
  const NOTICE_MS = 8000;
  let noticeUntil = 0;
  const put = (text) => { if (live && live.textContent !== text) live.textContent = text; };
  // A notice for the reader stays for a while; the state of the connection does not replace it before.
  const notice = (text) => { noticeUntil = Date.now() + NOTICE_MS; put(text); };
  const say = (text) => { if (Date.now() > noticeUntil) put(text); };
  const main = () => document.getElementById("main");
  const LOG_LINES_MAX = 600;
  let timer = null;
  let running = false;
  let wasConnected = false;

  // A person who types, or who has marked text to copy, is not interrupted.
  const isBusy = () => {
    const at = document.activeElement;
    const types = at && /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName) && at.type !== "hidden" && at.value !== "";
    return types || String(getSelection()) !== "";
  };

  const candidates = (from) => new Map([...from.querySelectorAll(".question")].map((one) => [one.id, one.dataset.candidate]));

  // Replaces the content of the page, and keeps open parts, the position in logs and the marked question.
  async function refresh() {
    timer = null;
    if (isBusy() || running) { later(1500); return; }
    running = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      if (answer.status === 401) { say("signed out: open a new link of `loopwright web`"); return; }
      if (!answer.ok) { say("this page is not available at the moment"); return; }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const [from, to] = [page.getElementById("main"), main()];
      if (!from || !to || isBusy()) return;
      if (from.innerHTML === to.innerHTML) { say("live"); return; }
      const open = new Map([...to.querySelectorAll("details[id]")].map((part) => [part.id, part.open]));
      const focused = document.activeElement && document.activeElement.id;
      const before = candidates(to);
      const logs = [...to.querySelectorAll("pre.log")].map((log) => {
        const isAtEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
        return { top: log.scrollTop, isAtEnd };
      });
      to.replaceChildren(...from.childNodes);
      open.forEach((isOpen, id) => { const part = document.getElementById(id); if (part) part.open = isOpen; });
      to.querySelectorAll("pre.log").forEach((log, at) => {
        const known = logs[at];
        log.scrollTop = known && !known.isAtEnd ? known.top : log.scrollHeight;
      });
      const again = focused && document.getElementById(focused);
      // A question whose candidate changed is not marked any more, so that no key answers for what nobody read.
      const isSame = again && (!again.dataset.candidate || before.get(focused) === again.dataset.candidate);
      if (again && again !== to && isSame) again.focus({ preventScroll: true });
      const changed = [...candidates(to)].filter(([id, hash]) => before.has(id) && before.get(id) !== hash);
      changed.forEach(([id]) => document.getElementById(id).classList.add("changed"));
      document.title = page.title;
      if (changed.length) notice("a candidate changed: read it again"); else say("live");
    } catch { say("the daemon does not answer; trying again"); later(3000); } finally { running = false; }
  }
  const later = (ms) => { if (timer === null) timer = setTimeout(refresh, ms); };
  const soon = () => later(Number(main().dataset.refresh) || 300);

  // Lines of agents as they appear. The next refresh replaces them by the log of the record.
  function show(news) {
    document.querySelectorAll(".liveline").forEach((place) => {
      if (place.dataset.round === news.round) place.textContent = news.line;
    });
    document.querySelectorAll("pre.log[data-live]").forEach((log) => {
      if (log.dataset.live !== news.round) return;
      const isAtEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
      log.append(`\n${news.line}`);
      while (log.childNodes.length > LOG_LINES_MAX) log.firstChild.remove();
      if (isAtEnd) log.scrollTop = log.scrollHeight;
    });
  }

  function connect() {
    const events = new EventSource("/api/v1/events");
    events.addEventListener("hello", () => {
      say("live");
      // After an interruption, also the changes that the journal does not have may be new.
      if (wasConnected) soon();
      wasConnected = true;
    });
    events.addEventListener("journal", soon);
    events.addEventListener("change", soon);
    events.addEventListener("live", (event) => show(JSON.parse(event.data)));
    // The browser connects again by itself, and names the last number that it saw. After an answer that is no stream it
    // gives up, so the page starts again.
    events.onerror = () => {
      say("connecting again …");
      if (events.readyState === EventSource.CLOSED) setTimeout(connect, 5000);
    };
    addEventListener("pagehide", () => events.close());
  }

  const two = (number) => String(number).padStart(2, "0");
  function tick() {
    document.querySelectorAll("[data-since]").forEach((place) => {
      const s = Math.max(0, Math.floor((Date.now() - Date.parse(place.dataset.since)) / 1000));
      const [h, m] = [Math.floor(s / 3600), Math.floor(s / 60) % 60];
      place.textContent = h ? `${h} h ${two(m)} min` : m ? `${m} min ${two(s % 60)} s` : `${s} s`;
    });
  }
  if (document.querySelector("header nav")) {
    connect();
    setInterval(tick, 1000);
    document.querySelectorAll("pre.log[data-live]").forEach((log) => { log.scrollTop = log.scrollHeight; });
  }

  const questions = () => [...document.querySelectorAll(".question")];
  const current = () => questions().indexOf(document.activeElement && document.activeElement.closest(".question"));
  function move(step) {
    const all = questions();
    const at = Math.min(Math.max(current() + step, 0), all.length - 1);
    if (all[at]) { all[at].focus(); all[at].scrollIntoView({ block: "start" }); }
  }
  // A key answers only the marked question; without one it marks the first.
  function press(suffix) {
    const at = questions()[current()];
    if (!at) { move(1); notice("this question is marked now: press the key again to answer it"); return; }
    const form = at.querySelector(`form[action$="/${suffix}"]`);
    if (!form) { notice("your role may not answer this question"); return; }
    const field = form.querySelector("input[required]");
    if (field && !field.value) { field.focus(); notice("type the reason, then press Enter"); return; }
    form.requestSubmit();
  }
  const keys = {
    j: () => move(1), k: () => move(-1), a: () => press("approve"), d: () => press("deny"),
    "?": () => { const line = document.getElementById("keys"); if (line) notice(line.textContent); },
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.key === "Escape" && document.activeElement) { document.activeElement.blur(); return; }
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    if (keys[event.key] && questions().length) { event.preventDefault(); keys[event.key](); }
  });
  // One click is one command; the key in the form keeps a second one from running it again anyway.
  addEventListener("submit", (event) => {
    if (event.target.method !== "post") return;
    const button = event.target.querySelector("button");
    if (button) setTimeout(() => { button.disabled = true; }, 0);
  });
})();
