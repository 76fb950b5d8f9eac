/** Who has room in the service's memory, who waits for it (http/gate/byte-room.ts). */
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyRequest } from 'fastify';
import { describe, expect, it } from 'vitest';
import { LIMITS } from '../../src/contract/limits.js';
import { Patience } from '../../src/engine/admission/patience.js';
import { announcedBytes, ByteRoom } from '../../src/http/gate/byte-room.js';

const LARGE = 100_000;
const never = new AbortController().signal;

/** Room for two large requests of a project, and for three of all. */
const newRoom = () => new ByteRoom({ perProject: 2 * LARGE, total: 3 * LARGE });
const enter = async (room: ByteRoom, project: string, bytes = LARGE, waitMs = 5_000, signal = never) =>
  room.enter(project, bytes, new Patience(waitMs), signal);

describe('works', () => {
  it('lets as much in as there is room, and the next when one has left', async () => {
    const room = newRoom();
    const [first] = [await enter(room, 'a'), await enter(room, 'a')];
    let isIn = false;
    const third = enter(room, 'a').then(() => (isIn = true));
    await sleep(5);
    expect(isIn).toBe(false);
    first?.leave();
    await third;
  });

  it('gives the room that a body turned out not to need to who waits', async () => {
    const room = newRoom();
    const packed = await enter(room, 'a', 2 * LARGE);
    const next = enter(room, 'a');
    packed.resize(10);
    (await next).leave();
    packed.leave();
    packed.leave();
    await enter(room, 'a', 2 * LARGE);
  });

  it('admits who waits, also where requests without a body have come and gone', async () => {
    const room = newRoom();
    const [one, other] = [await enter(room, 'a', 0), await enter(room, 'a', 0)];
    one?.leave();
    const large = await enter(room, 'a', 2 * LARGE);
    const next = enter(room, 'a');
    other?.leave();
    large.leave();
    (await next).leave();
  });

  it('counts an answer, which may be larger than the room, until it is taken', async () => {
    const room = newRoom();
    const place = await enter(room, 'a', 100);
    place.resize(5 * LARGE);
    await expect(enter(room, 'a', 100, 20)).rejects.toMatchObject({ code: 'overloaded' });
    await enter(room, 'b', 100);
    place.leave();
    await enter(room, 'a', 100);
  });
});

describe('protects', () => {
  it('small requests from the large ones of other projects', async () => {
    const room = newRoom();
    for (const project of ['a', 'a', 'b']) await enter(room, project);
    await enter(room, 'c', 1_000);
    await expect(enter(room, 'c', LARGE, 20)).rejects.toMatchObject({ code: 'overloaded' });
  });

  it('the only request of a project from all that others have', async () => {
    const room = newRoom();
    for (const project of ['a', 'a', 'b']) await enter(room, project);
    const place = await enter(room, 'c', LARGE, 20);
    await expect(enter(room, 'c', LARGE, 20)).rejects.toMatchObject({ code: 'overloaded' });
    place.leave();
  });

  it('small requests from a large one of their own project that waits', async () => {
    const room = newRoom();
    await enter(room, 'a', LARGE + LARGE / 2);
    const large = enter(room, 'a', LARGE, 200).catch(() => 'given up');
    await enter(room, 'a', 0, 20);
    await enter(room, 'a', 1_000, 20);
    expect(await large).toBe('given up');
  });

  it('who waits behind a large request that gives up', async () => {
    const room = newRoom();
    await enter(room, 'a', LARGE + LARGE / 4);
    const large = enter(room, 'a', LARGE, 50).catch(() => 'given up');
    const medium = enter(room, 'a', (LARGE * 2) / 3, 5_000);
    expect(await large).toBe('given up');
    (await medium).leave();
  });

  it('gives free room to the projects in turn', async () => {
    const room = newRoom();
    const [first, second] = [await enter(room, 'a'), await enter(room, 'a'), await enter(room, 'c', LARGE - 100)];
    await enter(room, 'b', 10);
    const order: string[] = [];
    const waiting = ['a', 'a', 'b'].map((project) => enter(room, project).then(() => order.push(project)));
    first?.leave();
    second?.leave();
    await Promise.race([Promise.all(waiting), sleep(20)]);
    expect(order.toSorted()).toEqual(['a', 'b']);
  });
});

describe('refuses', () => {
  it('who waits for too long, and who has left', async () => {
    const room = newRoom();
    const place = await enter(room, 'a', 2 * LARGE);
    await expect(enter(room, 'a', LARGE, 20)).rejects.toMatchObject({ code: 'overloaded' });
    const leaving = new AbortController();
    const left = enter(room, 'a', LARGE, 5_000, leaving.signal);
    leaving.abort();
    await expect(left).rejects.toMatchObject({ code: 'overloaded' });
    await expect(enter(room, 'a', LARGE, 5_000, leaving.signal)).rejects.toMatchObject({ code: 'overloaded' });
    place.leave();
    (await enter(room, 'a')).leave();
  });
});

describe('a body is taken for', () => {
  const MOST = LIMITS.bodyBytes;
  it.each<[string, Record<string, string>, number]>([
    ['what it says', { 'content-length': '1000' }, 1000],
    ['nothing where there is none', {}, 0],
    ['the longest there may be, where it says more', { 'content-length': String(2 * MOST) }, MOST],
    ['the longest where it comes in chunks', { 'transfer-encoding': 'chunked' }, MOST],
    ['the longest where it is packed', { 'content-length': '1000', 'content-encoding': 'gzip' }, MOST],
  ])('%s', (_, headers, bytes) => {
    expect(announcedBytes({ headers } as unknown as FastifyRequest)).toBe(bytes);
  });
});
