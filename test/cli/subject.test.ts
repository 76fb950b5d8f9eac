/** `cdp subject`: finds, hands over and erases people, and verifies receipts without the service; each run as a process. */
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { person, type Person } from '../support/cdp.js';
import { makeFolder } from '../support/folder.js';
import { numbersIn, WITH_BOTH, WITHOUT_ADA, withPeople } from '../support/people.js';
import { endEverything } from '../support/program.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';

const folder = makeFolder('cdp-subject-');
let service: TestService;
let project: TestProject;
let officer: Person;
let stranger: Person;
beforeAll(async () => {
  service = await startTestService();
  project = await withPeople(await service.project());
  const token = await project.tokenWith('schema:read', 'schema:write', 'sql:read', 'sql:write', 'subjects:erase');
  officer = await person({ CDP_URL: service.url, CDP_TOKEN: token });
  stranger = await person({});
});
afterAll(async () => {
  await endEverything();
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});

const subject = async (...words: string[]): Promise<string[]> =>
  (await officer.output('subject', ...words)).split('\n').slice(0, -1);

describe('works', () => {
  it('shows, proposes and declares where people are', async () => {
    expect(await subject('show')).toEqual([
      'person: customers by email, no (customer_no); rows are deleted',
      'person: events by user_id (customer_no); rows are deleted',
      'person: orders by customer (customer_no); sets customer, name',
    ]);
    const proposal = join(folder, 'proposal.json');
    const { subjects } = JSON.parse(await officer.output('subject', 'show', '--json')) as { subjects: object };
    writeFileSync(proposal, JSON.stringify(subjects));
    expect(await subject('declare', proposal)).toEqual(['Declared; 0 tables not covered']);
    expect(JSON.parse((await subject('show', '--proposal')).join('\n'))).toHaveProperty('person.tables.customers');
  });

  it('finds, exports, rehearses and erases, with a receipt that is verified without the service', async () => {
    expect(await subject('find', 'email=ADA@example.com')).toEqual([
      'email: ada@example.com',
      'customer_no: 1001',
      'events: 2 rows',
      'orders: 1 row',
      'customers: 1 row',
      'quarantine: 0',
      'idempotency keys: 0',
      'segments: 0',
    ]);
    const exported = await subject('export', 'email=ADA@example.com');
    expect(exported).toHaveLength(5);
    expect(exported.at(-1)).toMatch(/^\{"manifest":/);
    expect((await subject('erase', 'email=ADA@example.com', '--dry-run'))[1]).toBe('events: 2 deleted, 0 changed');
    expect(await numbersIn(project)).toEqual(WITH_BOTH);

    const receipt = join(folder, 'receipt.jws');
    const lines = await subject('erase', 'email=ADA@example.com', '--receipt', receipt);
    expect(await numbersIn(project)).toEqual(WITHOUT_ADA);
    expect(lines).toContain('customers: 1 deleted, 0 changed');
    const nonce = /^Nonce, stored nowhere else: (.+)$/.exec(lines.at(-1) ?? '')?.[1] ?? '';
    expect(statSync(receipt).mode & 0o777).toBe(0o600);

    const keys = join(folder, 'keys.json');
    writeFileSync(keys, (await project.call('GET', '/api/cdp/subjects/keys')).text);
    const verified = await stranger.output(
      'subject',
      'verify',
      receipt,
      '--keys',
      keys,
      '--nonce',
      nonce,
      'email= Ada@Example.com',
    );
    expect(verified).toMatch(/^Signed by the key .+, which is published\n/);
    expect(verified).toContain('customers: 1 deleted');
    expect(verified).toContain('this receipt is about it');
    const alone = await stranger.output('subject', 'verify', readFileSync(receipt, 'utf8').trim());
    expect(alone).toContain('Compare it with the published ones');
  });
});

describe('refuses', () => {
  it('a receipt that was changed, one of other keys, and one about somebody else', async () => {
    const [, , receipt = '', nonceLine = ''] = (await subject('erase', 'email=bob@example.com', '--json')).flatMap(
      (line) => {
        const { erasure, nonce } = JSON.parse(line) as { erasure: { receipt: string }; nonce: string };
        return ['', '', erasure.receipt, nonce];
      },
    );
    const [header, payload, signature] = receipt.split('.');
    const text = Buffer.from(payload ?? '', 'base64url')
      .toString()
      .replace('"deleted":1', '"deleted":9');
    const forged = [header, Buffer.from(text).toString('base64url'), signature].join('.');
    const refused = async (...words: string[]) => {
      const { code, stderr } = await stranger.run(['subject', 'verify', ...words]);
      expect(code).toBe(1);
      return stderr;
    };
    expect(await refused(forged)).toContain('NOT valid');
    const keys = join(folder, 'other-keys.json');
    writeFileSync(keys, '{"keys":[]}');
    expect(await refused(receipt, '--keys', keys)).toContain('not among those that are published');
    expect(await refused(receipt, '--nonce', nonceLine, 'email=ada@example.com')).toContain('not about everybody');
    expect(await refused(receipt, '--nonce', 'AAAA', 'email=bob@example.com')).toContain('not about everybody');
  });

  it('words that are no identifiers', async () => {
    expect((await officer.run(['subject', 'find', 'ada'])).code).toBe(2);
    expect((await officer.run(['subject', 'verify', join(folder, 'nothing')])).code).toBe(2);
  });
});
