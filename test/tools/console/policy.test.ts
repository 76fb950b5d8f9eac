/** The console under its content security policy: it starts, and what the policy forbids does not run. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { byName, launchBrowser, openPage, picturedOnFailure, type WatchedPage } from '../../support/browser.js';
import { faultsOfLooks } from '../../support/console.js';
import { startTestService, type TestService } from '../../support/service.js';

let service: TestService;
let browser: Browser;
let watched: WatchedPage;
beforeAll(async () => {
  service = await startTestService();
  browser = await launchBrowser();
  watched = await openPage(browser, byName(service.url));
});
beforeEach(() => picturedOnFailure(() => [watched]));
afterAll(async () => {
  await browser.close();
  await service.close();
});

describe('the console', () => {
  it('starts without errors in every theme and width, and sends requests only to the service', async () => {
    const page = await openPage(browser, byName(service.url));
    await page.page.goto(`${byName(service.url)}/console`);
    await page.page.getByRole('textbox').first().waitFor();
    expect(await faultsOfLooks(page, 'enter')).toEqual([]);
    expect(page.complaints).toEqual([]);
    await page.close();
  });

  it.each([
    ['an inline script', `document.body.append(Object.assign(document.createElement('script'), { text: 'ran = 1' }))`],
    ['text that becomes code', `setTimeout('ran = 1'); await new Promise((done) => setTimeout(done, 100))`],
    ['text that becomes HTML', `document.body.innerHTML = '<img src=x onerror="ran = 1">'`],
    [
      'a script of another host',
      `document.head.append(Object.assign(document.createElement('script'), { src: 'https://elsewhere.example/x.js' }))`,
    ],
    ['a connection to another host', `await fetch('https://elsewhere.example/', { mode: 'no-cors' })`],
    [
      'a frame',
      `document.body.append(Object.assign(document.createElement('iframe'), { src: '/docs' })); await new Promise((done) => setTimeout(done, 500))`,
    ],
    ['a style in an attribute', `document.body.setAttribute('style', 'color: red')`],
  ])("does not run %s, and the test's own watcher notices the attempt", async (_what, code) => {
    const page = await openPage(browser, byName(service.url));
    await page.page.goto(`${byName(service.url)}/console/`);
    await page.page.evaluate(`(async () => { try { ${code} } catch {} })()`);
    await expect.poll(() => page.complaints.join('\n')).toMatch(/content policy was violated|Content Security Policy/);
    expect(await page.page.evaluate('typeof ran')).toBe('undefined');
    await page.close();
  });
});
