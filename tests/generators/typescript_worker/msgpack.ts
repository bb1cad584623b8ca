// The part of MessagePack that the worker needs.

export function decode(bytes: Uint8Array): unknown {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    let at = 0;
    const unsigned = (size: number): number => {
        at += size;
        if (size === 1) return view.getUint8(at - 1);
        return size === 2 ? view.getUint16(at - 2) : view.getUint32(at - 4);
    };
    const binary = (size: number): Uint8Array => {
        at += size;
        return bytes.subarray(at - size, at);
    };
    const text = (size: number): string => new TextDecoder().decode(binary(size));
    const list = (size: number): unknown[] => Array.from({ length: size }, () => value());
    const map = (size: number): Record<string, unknown> =>
        Object.fromEntries(Array.from({ length: size }, () => [String(value()), value()]));
    const number = (size: number, read: (offset: number) => number | bigint): number => {
        at += size;
        return Number(read.call(view, at - size));
    };
    function value(): unknown {
        const head = unsigned(1);
        if (head < 0x80) return head;
        if (head < 0x90) return map(head & 15);
        if (head < 0xa0) return list(head & 15);
        if (head < 0xc0) return text(head & 31);
        if (head >= 0xe0) return head - 256;
        switch (head) {
            case 0xc0: return null;
            case 0xc2: return false;
            case 0xc3: return true;
            case 0xc4: case 0xc5: case 0xc6: return binary(unsigned(1 << (head - 0xc4)));
            case 0xca: return number(4, view.getFloat32);
            case 0xcb: return number(8, view.getFloat64);
            case 0xcc: case 0xcd: case 0xce: return unsigned(1 << (head - 0xcc));
            case 0xcf: return number(8, view.getBigUint64);
            case 0xd0: return number(1, view.getInt8);
            case 0xd1: return number(2, view.getInt16);
            case 0xd2: return number(4, view.getInt32);
            case 0xd3: return number(8, view.getBigInt64);
            case 0xd9: case 0xda: case 0xdb: return text(unsigned(1 << (head - 0xd9)));
            case 0xdc: case 0xdd: return list(unsigned(2 << (head - 0xdc)));
            case 0xde: case 0xdf: return map(unsigned(2 << (head - 0xde)));
        }
        throw new Error(`unknown head ${head}`);
    }
    const found = value();
    if (at !== bytes.length) throw new Error("bytes behind the value");
    return found;
}

export function encode(value: unknown): Uint8Array {
    if (value === null || value === undefined) return Uint8Array.of(0xc0);
    if (typeof value === "boolean") return Uint8Array.of(value ? 0xc3 : 0xc2);
    if (typeof value === "number") {
        const bytes = new Uint8Array(9);
        const view = new DataView(bytes.buffer);
        bytes[0] = Number.isSafeInteger(value) ? 0xd3 : 0xcb;
        if (Number.isSafeInteger(value)) view.setBigInt64(1, BigInt(value));
        else view.setFloat64(1, value);
        return bytes;
    }
    if (typeof value === "string") {
        const bytes = new TextEncoder().encode(value);
        return join([head(0xdb, bytes.length), bytes]);
    }
    if (value instanceof Uint8Array) return join([head(0xc6, value.length), value]);
    if (Array.isArray(value)) return join([head(0xdd, value.length), ...value.map(encode)]);
    const fields = Object.entries(value as object);
    return join([head(0xdf, fields.length), ...fields.flat().map(encode)]);
}

function head(kind: number, size: number): Uint8Array {
    const bytes = new Uint8Array(5);
    bytes[0] = kind;
    new DataView(bytes.buffer).setUint32(1, size);
    return bytes;
}

function join(parts: Uint8Array[]): Uint8Array {
    const joined = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
    let at = 0;
    for (const part of parts) {
        joined.set(part, at);
        at += part.length;
    }
    return joined;
}
