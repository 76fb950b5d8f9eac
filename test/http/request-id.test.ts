import { describe, expect, test } from 'vitest';
import { newRequestId } from '../../src/http/connection/request-id.js';

describe('newRequestId', () => {
  test('makes UUIDs of version 4 that do not repeat, over several batches', () => {
    const ids = Array.from({ length: 1_000 }, newRequestId);
    expect(new Set(ids).size).toBe(1_000);
    for (const id of ids) expect(id).toMatch(/^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
  });

  test('leaves no digit as it was in the batch before', () => {
    const ids = Array.from({ length: 1_000 }, newRequestId);
    const digits = ids[0]?.length ?? 0;
    for (let i = 0; i < digits; i++) {
      const seen = new Set(ids.map((id) => id[i]));
      if (i === 19) expect(seen).toEqual(new Set(['8', '9', 'a', 'b']));
      else expect(seen.size).toBe([8, 13, 14, 18, 23].includes(i) ? 1 : 16);
    }
  });
});
