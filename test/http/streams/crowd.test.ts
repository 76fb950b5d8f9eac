/** A thousand streams of one project at once: memory limits them, and only them. */
import type { Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { connect } from '../../support/raw.js';
import { startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService({ 'wait-ms': '1000' });
  project = await service.project();
});
afterAll(() => service.close());

const STREAMS = 1_000;

/** Sent by each: as much of one record. A stream reserves three times its buffer, here 384 KiB. */
const PART = 100_000;
const MOST_AT_ONCE = (64 * 1024) / 384;

class OpenStream {
  answer = '';

  static async to(table: string): Promise<OpenStream> {
    const stream = new OpenStream(await connect(service.url));
    stream.socket.write(
      `POST /api/cdp/data/${table} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${project.token}\r\n` +
        `content-type: application/x-ndjson\r\ncontent-length: ${PART + 12}\r\nconnection: close\r\n\r\n`,
    );
    stream.socket.write(`{"name":"${'x'.repeat(PART)}`);
    return stream;
  }

  constructor(private readonly socket: Socket) {
    socket.on('data', (data: Buffer) => (this.answer += data.toString()));
  }

  get status(): string | undefined {
    return /^HTTP\/1\.1 (\d+)/.exec(this.answer)?.[1];
  }

  end(): void {
    this.socket.write('"}\n');
  }

  close(): void {
    this.socket.destroy();
  }
}

it('those beyond the memory of a project are refused, the others and other projects are served', async () => {
  await project.table('crowd', { name: 'TEXT' });
  const streams = await Promise.all(Array.from({ length: STREAMS }, () => OpenStream.to('crowd')));
  try {
    const answered = () => streams.filter(({ status }) => status !== undefined);
    await expect.poll(() => answered().length, { timeout: 30_000 }).toBeGreaterThan(STREAMS - MOST_AT_ONCE - 1);
    for (const { answer } of answered()) expect(answer).toMatch(/^HTTP\/1\.1 503[^]*retry-after[^]*"overloaded"/i);
    const open = streams.filter(({ status }) => status === undefined);
    expect(open.length).toBeGreaterThan(0);

    const other = await service.project();
    await other.table('quiet', { name: 'TEXT' });
    const stream = { body: '{"name":"a"}\n', headers: { 'content-type': 'application/x-ndjson' } };
    expect((await other.call('POST', '/api/cdp/data/quiet', stream)).status).toBe(201);

    for (const one of open) one.end();
    // Some may still wait for memory, in vain.
    await expect.poll(() => answered().length, { timeout: 30_000 }).toBe(STREAMS);
    const stored = streams.filter(({ status }) => status === '201').length;
    expect(stored).toBeGreaterThan(0);
    expect(await project.rows('SELECT count(*) AS n FROM crowd')).toEqual([{ n: stored }]);
    expect((await project.call('POST', '/api/cdp/data/crowd', stream)).status).toBe(201);
  } finally {
    for (const one of streams) one.close();
  }
});
