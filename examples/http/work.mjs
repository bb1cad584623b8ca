// HTTP API from Node with fetch alone: enqueue a job, follow it, run it and read its result.
// node work.mjs http://localhost:8080
const server = process.argv[2] ?? "http://localhost:8080";

async function ask(method, path, body) {
  const answer = await fetch(`${server}/api/v1${path}`, {
    method,
    headers: { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const said = await answer.json();
  if (!answer.ok) throw new Error(`${said.code}: ${said.detail}`);
  return said;
}

// Yields server-sent events as { event, data }.
async function* events(path) {
  const answer = await fetch(`${server}/api/v1${path}`, { headers: { Accept: "text/event-stream" } });
  let text = "";
  for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    const frames = text.split("\n\n");
    text = frames.pop();
    for (const frame of frames) {
      const fields = Object.fromEntries(
        frame.split("\n").filter((line) => line && !line.startsWith(":")).map((line) => line.split(/: ?(.*)/s)),
      );
      if (fields.data) yield { event: fields.event, data: JSON.parse(fields.data) };
    }
  }
}

const { id } = await ask("POST", "/jobs", {
  queue: "sums", name: "add", payload: { a: 2, b: 40 }, result_ttl_ms: 60_000,
});

async function work() {
  const { jobs: [job] } = await ask("POST", "/take", { queues: ["sums"], wait_ms: 10_000 });
  await ask("POST", `/jobs/${job.id}/progress`, { token: job.lease_token, progress: 0.5, note: "adding" });
  await ask("POST", `/jobs/${job.id}/finish`, { token: job.lease_token, result: job.payload.a + job.payload.b });
}

const seen = [];
let worked;
for await (const { event } of events(`/jobs/${id}/events`)) {
  worked ??= work(); // the first event is the current state: from here on we follow the job
  seen.push(event);
}
await worked;
const { state, result } = await ask("GET", `/jobs/${id}/result`);
console.log(seen.join(" "), state, result);
