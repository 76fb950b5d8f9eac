/** `cdp receipt` against a real service. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Receipt } from '../../src/contract/wire/receipts.js';
import { person, type Person } from '../support/cdp.js';
import { endEverything } from '../support/program.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../support/service.js';

let service: TestService;
let project: TestProject;
let ada: Person;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  ada = await person({ CDP_URL: service.url, CDP_TOKEN: project.token });
  await project.table('people', { age: 'INTEGER' });
  await project.table('others', { age: 'INTEGER' });
});
afterAll(async () => {
  await endEverything();
  await service.close();
});

const send = (table: string, key: string) =>
  project.call('POST', `/api/cdp/data/${table}`, { body: [{ age: 1 }], headers: { 'idempotency-key': key } });

it('says which batches are stored, and whether all are by its exit code', async () => {
  await send('people', 'stored');
  await send('others', 'stored');
  expect(await ada.run(['receipt', 'stored', '--table', 'people'])).toMatchObject({ code: 0 });
  const { code, stdout } = await ada.run(['receipt', 'stored', 'never', '--json']);
  expect(code).toBe(4);
  const receipts = JSON.parse(stdout) as Receipt[];
  expect(receipts.map(({ key, status }) => [key, status])).toEqual([
    ['stored', 'stored'],
    ['stored', 'stored'],
    ['never', 'not_stored'],
  ]);
});

it('settles a key, which is refused from then on', async () => {
  const settled = await ada.run(['receipt', 'late', '--settle']);
  expect(settled).toMatchObject({ code: 4, stdout: expect.stringMatching(/late +\| settled/) as string });
  expectFailure(await send('people', 'late'), 409, 'key_settled');
});
