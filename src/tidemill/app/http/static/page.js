// Keeps the overview fresh: every two seconds, and not while the page is hidden.
const overview = document.getElementById("overview");
const state = document.getElementById("state");
const form = document.getElementById("key");
const EVERY_MS = 2000;
let timer = 0;

async function refresh() {
  clearTimeout(timer);
  if (document.hidden) return;
  const token = sessionStorage.getItem("token");
  try {
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    const answer = await fetch(`${document.body.dataset.prefix}/overview`, { headers, signal: AbortSignal.timeout(10000) });
    form.hidden = answer.status !== 401 && answer.status !== 403;
    if (answer.ok) overview.innerHTML = await answer.text();
    state.textContent = answer.ok ? "live" : `answer ${answer.status}`;
  } catch {
    state.textContent = "no answer";
  }
  state.className = state.textContent === "live" ? "live" : "stale";
  overview.classList.toggle("stale", state.textContent !== "live");
  clearTimeout(timer);
  timer = setTimeout(refresh, EVERY_MS);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", document.getElementById("token").value.trim());
  form.reset();
  refresh();
});
document.addEventListener("visibilitychange", refresh);
refresh();
