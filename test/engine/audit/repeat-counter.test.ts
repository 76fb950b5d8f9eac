/** Refusals that anyone can cause: the first of each kind is an entry, the others of the interval are a count. */
import { describe, expect, it } from 'vitest';
import { RepeatCounter } from '../../../src/engine/audit/audit.js';
import type { AuditRow } from '../../../src/tenancy/control/audit-rows.js';

const refusal = (given: Partial<AuditRow> = {}): AuditRow => ({
  at: new Date(1),
  id: 1,
  request_id: 'request',
  project_id: null,
  project: null,
  actor: 'unknown',
  actor_id: null,
  actor_name: null,
  address: '192.0.2.1',
  operation: 'authentication',
  object: null,
  statement_sha256: null,
  statement: null,
  rows: null,
  outcome: 'unauthorized',
  status: 401,
  duration_ms: 1,
  count: 1,
  ...given,
});

describe('a counter of refusals', () => {
  it('lets the first of each kind pass and counts the others, with the latest as their representative', () => {
    const counter = new RepeatCounter(10);
    expect(counter.isFirst(refusal())).toBe(true);
    expect(counter.isFirst(refusal({ address: '192.0.2.2' }))).toBe(true);
    expect(counter.isFirst(refusal({ outcome: 'token_expired' }))).toBe(true);
    expect(counter.isFirst(refusal({ actor_id: 'a token' }))).toBe(true);
    for (let i = 0; i < 5; i++) expect(counter.isFirst(refusal({ request_id: `request-${i}` }))).toBe(false);
    expect(counter.take()).toEqual([refusal({ request_id: 'request-4', count: 5 })]);
  });

  it('starts again with each interval', () => {
    const counter = new RepeatCounter(10);
    counter.isFirst(refusal());
    expect(counter.take()).toEqual([]);
    expect(counter.isFirst(refusal())).toBe(true);
  });

  it('distinguishes a limited number of callers; the others share an entry without a name', () => {
    const counter = new RepeatCounter(100);
    const passed = Array.from({ length: 100_000 }, (_, i) => counter.isFirst(refusal({ address: `address ${i}` })));
    expect(passed.filter(Boolean)).toHaveLength(100);
    const entries = counter.take();
    expect(entries).toEqual([refusal({ request_id: null, address: null, duration_ms: null, count: 99_900 })]);
  });

  it('still counts the callers that it knows if there are too many', () => {
    const counter = new RepeatCounter(1);
    counter.isFirst(refusal());
    counter.isFirst(refusal({ address: 'another' }));
    counter.isFirst(refusal());
    expect(counter.take().map(({ address, count }) => [address, count])).toEqual([
      ['192.0.2.1', 1],
      [null, 1],
    ]);
  });
});
