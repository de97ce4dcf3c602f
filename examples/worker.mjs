// A worker in JavaScript that speaks the plain protocol, with nothing but Node 20 or later:
//
//   node --experimental-websocket examples/worker.mjs http://localhost:7433 [queue]
//
// (From Node 22 on the flag is not needed.) It answers each job with its payload in capitals. A token is taken from
// TIDEMILL_TOKEN. SIGTERM and SIGINT let it finish the job that it has; a second one ends it at once.

import { readFileSync } from "node:fs";
import { hostname } from "node:os";

const REGISTRATION = 0, STATUS = 1, STATUS_REQUEST = 2, PROGRESS = 3, FAILED = 4;
const BUSY = 0, READY = 1;
const POLICY = 1008; // a node that closes with it before its first word does not want this worker
const FIRST_PAUSE_MS = 200, LONGEST_PAUSE_MS = 30_000;

const [url, queue] = process.argv.slice(2);
if (!url) {
  console.error("usage: node --experimental-websocket worker.mjs URL [QUEUE]");
  process.exit(2);
}
const address = new URL(url.replace(/^http/, "ws"));
address.pathname = address.pathname.replace(/\/*$/, "/api/worker") + (queue ? `/${encodeURIComponent(queue)}` : "");

let socket = null;
let working = false; // also while the connection that brought the job is gone already
let stopping = false;
let failures = 0;

/** What this worker does with a job. It may take its time, and say how far it is. */
async function handle(payload, progress) {
  progress(50, "shouting");
  return new TextEncoder().encode(new TextDecoder("utf-8", { fatal: true }).decode(payload).toUpperCase());
}

function say(to, message) {
  if (to.readyState === WebSocket.OPEN) to.send(JSON.stringify(message));
}

function identity() {
  try {
    return `${readFileSync("/etc/machine-id", "utf8").trim()}-${queue ?? "default"}-js`;
  } catch {
    return `${hostname()}-${queue ?? "default"}-js`;
  }
}

async function work(from, payload) {
  working = true;
  try {
    const result = await handle(payload, (percent, info) => say(from, { code: PROGRESS, percent, info }));
    // A result whose connection is gone is nobody's any more: the node has given the job to another worker.
    if (from.readyState === WebSocket.OPEN) from.send(result);
  } catch (error) {
    say(from, { code: FAILED, info: String(error.message ?? error), logs: String(error.stack ?? "") });
  } finally {
    working = false;
  }
  if (stopping) leave();
}

function heard(from, data) {
  failures = 0;
  if (data instanceof ArrayBuffer) return void work(from, data);
  // After each result the node asks, so that nothing need be said without a question.
  if (JSON.parse(data).code === STATUS_REQUEST) {
    say(from, { code: STATUS, status: working || stopping ? BUSY : READY });
  }
}

function connect() {
  const connection = new WebSocket(address);
  let opened = false, greeted = false, over = false;
  socket = connection;
  connection.binaryType = "arraybuffer";
  connection.onopen = () => {
    opened = true;
    say(connection, {
      code: REGISTRATION, name: hostname(), id: identity(), token: process.env.TIDEMILL_TOKEN ?? "",
    });
  };
  connection.onmessage = ({ data }) => {
    greeted = true;
    heard(connection, data);
  };
  const ended = (code, reason) => {
    if (over) return;
    over = true;
    if (stopping && !working) process.exit(0);
    if (code === POLICY && !greeted && !reason.startsWith("not registered")) {
      console.error(`refused: ${reason}`);
      process.exit(5);
    }
    // Anything up to a bound that doubles, so that many workers do not come back at the same moment.
    const bound = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(failures++, 16));
    setTimeout(connect, Math.random() * bound);
  };
  connection.onclose = ({ code, reason }) => ended(code, reason);
  // A connection that never opened is not closed either, in Node 20.
  connection.onerror = () => opened || ended(0, "");
}

function leave() {
  if (socket.readyState === WebSocket.OPEN) socket.close(1000);
  else process.exit(0);
}

for (const signal of ["SIGTERM", "SIGINT"]) {
  process.on(signal, () => {
    if (stopping) process.exit(130);
    stopping = true;
    say(socket, { code: STATUS, status: BUSY });
    if (!working) leave();
  });
}

connect();
