// What the worker uses of Node; its own types are not installed.
declare module "node:http" {
    interface Request extends AsyncIterable<Uint8Array> {
        method: string;
        url: string;
        headers: Record<string, string | undefined>;
    }
    interface Response {
        writeHead(status: number, headers?: Record<string, string>): Response;
        end(): void;
    }
    export function createServer(handle: (request: Request, response: Response) => Promise<void>): {
        listen(port: number, host: string, ready: () => void): void;
    };
}
declare const process: { argv: string[] };
