/** Moves of projects between servers in the console: what prevents a move, a canceled one, and a completed one. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import { type AddedServer, startAddedServer, variableWith } from '../../support/added-server.js';
import { launchBrowser, picturedOnFailure } from '../../support/browser.js';
import { faultsOfLooks, visit, type Visitor } from '../../support/console.js';
import { inProject, startTestService, type TestService } from '../../support/service.js';

let other: AddedServer;
let service: TestService;
let browser: Browser;
let admin: string;
let visitor: Visitor;
beforeAll(async () => {
  other = await startAddedServer(18);
  service = await startTestService();
  service.engine.moves.startRecovering();
  admin = (await service.engine.tokens.create(null, { name: 'ops' })).token;
  const body = { name: 'eu-1', url_reference: `env:${variableWith(other.url)}` };
  const added = await service.call('POST', '/api/cdp/admin/servers', { token: admin, body });
  if (added.status !== 201) throw new Error(added.text);
  browser = await launchBrowser();
  visitor = await visit(browser, service, { token: admin });
});
beforeEach(() => picturedOnFailure(() => [visitor]));
afterAll(async () => {
  await visitor.close();
  await browser.close();
  await service.close();
  await other.close();
});

it('shows what a move copies and what prevents it; one move is canceled, and the next one completes', async () => {
  const project = await service.project(undefined, 'default');
  const { name } = project;
  await project.table('visits', { page: 'TEXT' });
  await project.rows(`INSERT INTO visits (page) SELECT 'page ' || n FROM generate_series(1, 1000) AS n`);
  const { page } = visitor;
  const dialog = page.getByRole('dialog');
  const move = async () => {
    // From another screen, so that the list is read again.
    await page.getByRole('link', { name: 'Servers', exact: true }).click();
    await page.getByRole('link', { name: 'Projects', exact: true }).click();
    await page.getByRole('link', { name, exact: true }).click();
    await page.getByRole('button', { name: 'Move', exact: true }).click();
    await dialog.getByText('Nothing prevents the move').waitFor();
  };

  const { placement } = await service.engine.projects.get(name);
  // What is locked cannot be copied, so that there is time to cancel the move.
  await inProject(service, placement, async (client) => {
    await client.query(`BEGIN; LOCK TABLE ${placement.schema}.visits IN ACCESS EXCLUSIVE MODE`);
    await move();
    expect(await faultsOfLooks(visitor, 'move')).toEqual([]);
    await dialog.getByText('The request as curl').click();
    expect(await dialog.locator('pre').innerText()).toContain(`-d '{"to":"eu-1","verify":"counts"}'`);
    await dialog.getByRole('button', { name: 'Move', exact: true }).click();
    await page.getByRole('button', { name: `Cancel the move of ${name}` }).click();
    await dialog.getByRole('button', { name: 'Cancel the move' }).click();
    await page.getByText('undo', { exact: false }).first().waitFor();
    await client.query('ROLLBACK');
  });
  const moves = page.getByRole('region', { name: 'List of moves' }).locator('tbody').getByRole('row');
  const rows = moves.filter({ hasText: name });
  await expect.poll(() => rows.first().innerText(), { timeout: 60_000 }).toMatch(/default → eu-1\s+undone/);

  await move();
  await dialog.getByLabel(/Compare the rows themselves/).check();
  await dialog.getByRole('button', { name: 'Move', exact: true }).click();
  await expect.poll(() => rows.first().innerText(), { timeout: 60_000 }).toMatch(/default → eu-1\s+done\s+1,000/);
  expect(await rows.count()).toBe(2);
  expect(await faultsOfLooks(visitor, 'moves')).toEqual([]);
  expect(await (await project.seenAnew()).rows('SELECT count(*)::int AS n FROM visits')).toEqual([{ n: 1_000 }]);
  await page.getByRole('link', { name, exact: true }).first().click();
  await page.getByRole('definition').filter({ hasText: 'eu-1' }).waitFor();
  await service.engine.projects.delete(name, BY_ITSELF);
});

it('cancels a move in each state before the switch', async () => {
  const { page } = visitor;
  const screens = page.getByRole('navigation', { name: 'Screens' });
  const states = ['preparing', 'streaming', 'fencing', 'copying', 'verifying', 'switched', 'done', 'undoing', 'undone'];
  const move = { from: 'default', to: 'eu-1', rows: 0, bytes: 0, mode: 'stream', fallback: null, reason: null };
  const times = { pause_ms: null, started_at: new Date().toISOString(), ended_at: null };
  const moves = states.map((state, id) => ({ ...move, ...times, id: String(id), project: `is-${state}`, state }));
  await page.route('**/api/cdp/admin/moves', (route) => route.fulfill({ json: { success: true, moves } }));
  // From another screen, so that the list is read again.
  await screens.getByRole('link', { name: 'Audit log' }).click();
  await screens.getByRole('link', { name: 'Servers' }).click();
  await page.getByRole('link', { name: 'is-undone' }).waitFor();
  const cancels = await page.getByRole('button', { name: /^Cancel the move of/ }).all();
  expect(await Promise.all(cancels.map((button) => button.getAttribute('aria-label')))).toEqual(
    ['preparing', 'streaming', 'fencing', 'copying', 'verifying'].map((state) => `Cancel the move of is-${state}`),
  );
  await page.unrouteAll({ behavior: 'wait' });
});

it('drops a late answer about a server that is no longer chosen', async () => {
  const project = await service.project(undefined, 'default');
  const { name } = project;
  const { page } = visitor;
  const screens = page.getByRole('navigation', { name: 'Screens' });
  const { servers } = (await service.call('GET', '/api/cdp/admin/servers', { token: admin })).body as {
    servers: { name: string }[];
  };
  const json = { success: true, servers: [...servers, { ...servers.at(-1), name: 'eu-2' }] };
  await page.route('**/api/cdp/admin/servers', (route) => route.fulfill({ json }));
  let answerFirst = (): void => undefined;
  const first = new Promise<void>((resolve) => (answerFirst = resolve));
  const plan = { success: true, project: name, from: 'default', bytes: 0, fallback: null };
  await page.route(/\/move\?to=eu-1/, async (route) => {
    await first;
    await route.fulfill({ json: { ...plan, to: 'eu-1', obstacles: [] } });
  });
  await page.route(/\/move\?to=eu-2/, (route) =>
    route.fulfill({ json: { ...plan, to: 'eu-2', obstacles: ['the server eu-2 is closed'] } }),
  );
  await screens.getByRole('link', { name: 'Servers' }).click();
  await screens.getByRole('link', { name: 'Projects' }).click();
  await page.getByRole('link', { name, exact: true }).click();
  const asked = page.waitForRequest(/to=eu-1/);
  await page.getByRole('button', { name: 'Move', exact: true }).click();
  await asked;
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('From default to').selectOption('eu-2');
  await dialog.getByText('the server eu-2 is closed').waitFor();
  const answered = page.waitForResponse(/to=eu-1/);
  answerFirst();
  await (await answered).finished();
  // After the answer's own tasks.
  await page.evaluate('new Promise((resolve) => setTimeout(resolve, 100))');
  expect(await dialog.getByRole('status').innerText()).toContain('the server eu-2 is closed');
  expect(await dialog.getByRole('button', { name: 'Move', exact: true }).isDisabled()).toBe(true);
  await page.keyboard.press('Escape');
  await page.unrouteAll({ behavior: 'wait' });
  await service.engine.projects.delete(name, BY_ITSELF);
});

it('shows what prevents a move, and sends nothing', async () => {
  // It may be the second try.
  for (const server of ['default', 'eu-1']) {
    const body = { status: 'active' };
    await service.call('PUT', `/api/cdp/admin/servers/${server}`, { token: admin, body });
  }
  const project = await service.project(undefined, 'default');
  const { name } = project;
  await project.table('visits', { page: 'TEXT' });
  const drain = { token: admin, body: { status: 'draining' } };
  await service.call('PUT', '/api/cdp/admin/servers/default', drain);
  const { page } = visitor;
  await page.getByRole('link', { name: 'Servers', exact: true }).click();
  // A rebalance names it.
  await page.getByRole('button', { name: `Move ${name} to eu-1` }).click({ timeout: 60_000 });
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Nothing prevents the move').waitFor();
  await page.keyboard.press('Escape');
  const close = { token: admin, body: { status: 'closed' } };
  await service.call('PUT', '/api/cdp/admin/servers/eu-1', close);
  await page.getByRole('link', { name, exact: true }).first().click();
  await page.getByRole('button', { name: 'Move', exact: true }).click();
  await dialog.getByText('the server eu-1 is closed').waitFor();
  await dialog.getByText('It cannot move there').waitFor();
  expect(await dialog.getByRole('button', { name: 'Move', exact: true }).isDisabled()).toBe(true);
  await page.keyboard.press('Escape');
  await service.engine.projects.delete(name, BY_ITSELF);
});
