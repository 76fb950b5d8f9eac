/** The patterns in the schemas of requests: an error message describes in words what each allows. */
import { expect, it } from 'vitest';
import { patternInWords } from '../../src/contract/patterns.js';
import { ADMIN_SOCKET_ROUTES } from '../../src/http/api/admin-socket-routes.js';
import { OPERATIONS } from '../../src/http/api/operations.js';

const PATTERNS = [...OPERATIONS, ...ADMIN_SOCKET_ROUTES].flatMap(({ body, query }) => {
  const found: unknown[] = [];
  JSON.stringify([body, query], (key, value: unknown) => {
    if (key === 'pattern') found.push(value);
    return value;
  });
  return found as string[];
});

it.each([...new Set(PATTERNS)])('describes %s in words', (pattern) => {
  expect(patternInWords(pattern)).toMatch(/^\w[^^$]+$/);
});
