// A push worker whose requests, answers and reports have the types that openapi-typescript makes of our documents.
// node worker.js <master> <port>

import { createServer } from "node:http";
import type { components, operations as master } from "./lightjq.js";
import { decode, encode } from "./msgpack.js";
import type { operations } from "./worker_api.js";

type Push = operations["worker_job"];
type Job = Push["requestBody"]["content"]["application/msgpack"];
type Status = Extract<keyof Push["responses"], number>;
type WorkerHeader = keyof Push["parameters"]["header"];
type NewWorker = master["register_worker"]["requestBody"]["content"]["application/msgpack"];
type Registered = master["register_worker"]["responses"][201]["content"]["application/msgpack"];
type Report = components["schemas"]["Success"] | components["schemas"]["Failure"];

const WORKER_ID: WorkerHeader = "worker-id";
const MEDIA_TYPE: keyof Push["requestBody"]["content"] = "application/msgpack";
const [, , masterUrl, port] = process.argv;
let workerId = "";
let isBusy = true; // the first push is answered with 429

const handlers: Record<string, (argument: any) => unknown> = {
    double: (argument) => argument.value * 2,
    echo: (argument) => argument,
    refuse: () => {
        throw new Error("it does not work");
    },
};

async function post(path: string, body: NewWorker | Report): Promise<unknown> {
    const headers = { "content-type": MEDIA_TYPE, ...(workerId && { [WORKER_ID]: workerId }) };
    const answer = await fetch(masterUrl + path, { method: "POST", headers, body: encode(body) as BodyInit });
    const content = new Uint8Array(await answer.arrayBuffer());
    return content.length ? decode(content) : null;
}

async function run(job: Job): Promise<void> {
    let report: Report;
    try {
        report = { type: "success", job_id: job.job_id, result: handlers[job.name]!(job.argument) };
    } catch (error) {
        const message = String(error);
        report = { type: "failure", job_id: job.job_id, reason: "other", should_retry: false, message };
    }
    await post("/done", report);
}

function accept(job: Job, meant: string | undefined): Status {
    if (workerId && meant !== workerId) return 410; // it may be pushed to before it has read the answer
    if (!(job.name in handlers)) return 404;
    if (isBusy) {
        isBusy = false;
        return 429;
    }
    void run(job);
    return 202;
}

const server = createServer(async (request, response) => {
    const parts: Uint8Array[] = [];
    for await (const part of request) parts.push(part);
    const body = new Uint8Array(parts.flatMap((part) => [...part]));
    let status: Status = 404;
    if (request.headers["content-type"] !== MEDIA_TYPE) status = 415;
    else if (request.url === "/worker-job") status = accept(decode(body) as Job, request.headers[WORKER_ID]);
    response.writeHead(status, status === 429 ? { "Retry-After": "1" } : {}).end();
});

server.listen(Number(port), "127.0.0.1", async () => {
    const registered = await post("/worker", { name: "typescript", max_jobs: 2, url: `http://127.0.0.1:${port}` });
    workerId = (registered as Registered).worker_id;
});
