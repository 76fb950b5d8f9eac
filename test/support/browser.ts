/** Pages in the machine's browser, watched for everything that must not happen in one of our pages. */
import { existsSync } from 'node:fs';
import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { onTestFailed } from 'vitest';

const BROWSERS = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/usr/bin/google-chrome-stable',
];

/** Resolves to loopback. Browsers are more lenient with loopback than with the hosts that others come to. */
const HOST = 'cdp.example';

/** In the middle of one, colors are none of a theme. Animations without an end are left out. */
const TRANSITIONS_END = `Promise.allSettled(document.getAnimations()
  .filter((animation) => animation.effect?.getComputedTiming().endTime !== Infinity)
  .map((animation) => animation.finished))`;

const AXE = fileURLToPath(new URL('../../node_modules/axe-core/axe.min.js', import.meta.url));

function findBrowser(): string {
  const found = [process.env.CHROME_PATH, ...BROWSERS].find((path) => path !== undefined && existsSync(path));
  if (found === undefined) {
    throw new Error('This test needs a Chromium: install one (apt-get install chromium), or name it in CHROME_PATH');
  }
  return found;
}

/** Of all hosts it finds loopback alone. */
export const launchBrowser = (): Promise<Browser> =>
  chromium.launch({
    executablePath: findBrowser(),
    // Without a sandbox, since Chromium refuses to run as root with one; the pages are our own.
    args: ['--no-sandbox', `--host-resolver-rules=MAP ${HOST} 127.0.0.1,MAP * ~NOTFOUND,EXCLUDE 127.0.0.1`],
  });

/** The service by a name, over plain HTTP, so no secure context: as on an intranet. */
export const byName = (url: string): string => url.replace('127.0.0.1', HOST);

export interface WatchedPage {
  readonly page: Page;
  /**
   * Errors in the console or of scripts, violations of the content policy, requests to other hosts, files that are not
   * there.
   */
  readonly complaints: string[];
  /** The paths and hosts that were asked. */
  readonly asked: string[];
  /** The rules of axe-core that the page violates now, with the elements. */
  axe: () => Promise<string[]>;
  close: () => Promise<void>;
}

/**
 * A page in a context of its own. Refusals of the API are responses like others, and no complaints.
 * @param origin of the service, which is all that the page may ask
 */
export async function openPage(
  browser: Browser,
  origin: string,
  options: BrowserContextOptions = {},
): Promise<WatchedPage> {
  const context = await browser.newContext(options);
  // A busy machine takes long to show a page.
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const complaints: string[] = [];
  const asked: string[] = [];
  const isApiPath = (url: string): boolean => url.startsWith(`${origin}/api/`) || url === `${origin}/metrics`;
  // Of all its pages, those that are opened later too.
  context.on('request', (request) => {
    const url = request.url();
    asked.push(url);
    if (!/^(data|blob):/.test(url) && !url.startsWith(`${origin}/`)) complaints.push(`asked ${url}`);
  });
  context.on('response', (response) => {
    const [status, url] = [response.status(), response.url()];
    if (status >= 400 && !isApiPath(url)) complaints.push(`${status} ${url}`);
  });
  context.on('weberror', (event) => {
    const error = event.error();
    complaints.push(String(error.stack ?? error));
  });
  context.on('console', (message) => {
    if (message.type() !== 'error' || isApiPath(message.location().url)) return;
    complaints.push(`${message.text()} (${message.location().url})`);
  });
  await context.addInitScript(() => {
    const listen = (
      globalThis as unknown as { addEventListener: (type: string, listener: (event: object) => void) => void }
    ).addEventListener;
    listen('securitypolicyviolation', (event) => {
      const { effectiveDirective, blockedURI } = event as { effectiveDirective: string; blockedURI: string };
      console.error(`The content policy was violated: ${effectiveDirective} ${blockedURI}`);
    });
  });
  return { page, complaints, asked, axe: () => axeViolations(page), close: () => context.close() };
}

interface Violation {
  readonly id: string;
  readonly help: string;
  readonly nodes: readonly { readonly target: string[]; readonly failureSummary: string }[];
}

async function axeViolations(page: Page): Promise<string[]> {
  if (await page.evaluate(`typeof axe === 'undefined'`)) await page.evaluate(await readFile(AXE, 'utf8'));
  await page.evaluate(TRANSITIONS_END);
  const { violations } = await page.evaluate<{ violations: readonly Violation[] }>(
    `axe.run({ resultTypes: ['violations'] })`,
  );
  return violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id}: ${help}: ${target.join(' ')}: ${failureSummary}`),
  );
}

/** For `beforeEach`: if the test fails, its message says where the picture of the page is. */
export function picturedOnFailure(pages: () => readonly WatchedPage[]): void {
  onTestFailed(async ({ task }) => {
    const folder = await mkdtemp(join(tmpdir(), 'cdp-pictures-'));
    for (const [i, { page }] of pages().entries()) {
      const path = join(folder, `${i}.png`);
      await page.screenshot({ path, fullPage: true }).then(
        () => console.error(`${task.name}: see ${path}`),
        () => {},
      );
    }
  });
}
