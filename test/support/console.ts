/** Operates the console like a user: a page after log-in, and helpers named after what users do there. */
import { expect } from 'vitest';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { byName, openPage, type WatchedPage } from './browser.js';
import type { TestProject, TestService } from './service.js';

export interface Visitor extends WatchedPage {
  /** Ends the visit, of which there must be no complaints. */
  close: () => Promise<void>;
  /** Replaces the text of the editor. */
  write: (sql: string) => Promise<void>;
  /** Presses keys that run something, and waits for its end. */
  press: (keys: string) => Promise<void>;
  /** Writes and runs it by the keyboard. Ends with the run. */
  run: (sql: string) => Promise<void>;
  /** What the grid shows now, without the numbers of the rows. */
  cells: () => Promise<string[][]>;
}

/** @param fragment of the address, such as `#/tables` */
export async function visit(
  browser: Browser,
  service: TestService,
  { token }: Pick<TestProject, 'token'>,
  { fragment = '', ...options }: BrowserContextOptions & { fragment?: string } = {},
): Promise<Visitor> {
  const watched = await openPage(browser, byName(service.url), { viewport: { width: 1280, height: 800 }, ...options });
  const { page } = watched;
  await page.goto(`${byName(service.url)}/console/${fragment}`);
  await enter(page, token);
  const write = async (sql: string) => {
    const editor = page.getByRole('textbox', { name: 'SQL', exact: true });
    await editor.focus();
    await page.keyboard.press('Control+A');
    await page.keyboard.press('Delete');
    await page.keyboard.insertText(sql);
  };
  const press = async (keys: string) => {
    const shown = page.locator('.outcome-status');
    const before = (await shown.count()) === 0 ? null : await shown.getAttribute('data-run');
    await page.keyboard.press(keys);
    await page.locator(`.outcome-status:not(.is-running):not([data-run="${before}"])`).waitFor();
  };
  return {
    ...watched,
    close: async () => {
      await watched.close();
      expect(watched.complaints).toEqual([]);
    },
    write,
    press,
    run: async (sql) => {
      await write(sql);
      await press('Control+Enter');
    },
    cells: () =>
      page
        .locator('.grid-row:not(.grid-head)')
        .evaluateAll((rows) =>
          (rows as unknown as { querySelectorAll(selector: string): Iterable<{ textContent: string }> }[]).map((row) =>
            [...row.querySelectorAll('[role=gridcell]')].map((cell) => cell.textContent),
          ),
        ),
  };
}

/**
 * Answers a request of the store that the console keeps its work in.
 * @param request JavaScript, of an IDBObjectStore named `store`. The store is made if the console has not come to it yet.
 */
export const inBrowserStore = <Answer>(page: Page, request: string): Promise<Answer> =>
  page.evaluate(`new Promise((resolve, reject) => {
    const opening = indexedDB.open('cdp-console', 1);
    opening.onerror = () => reject(opening.error);
    opening.onupgradeneeded = () => opening.result.createObjectStore('kept');
    opening.onsuccess = () => {
      const store = opening.result.transaction('kept', 'readwrite').objectStore('kept');
      const asked = ${request};
      asked.onerror = () => reject(asked.error);
      asked.onsuccess = () => resolve(asked.result);
    };
  })`);

/** A desk, a tablet and a phone, in both themes. */
const LOOKS = [1440, 1024, 390].flatMap((width) => [[width, 'light'] as const, [width, 'dark'] as const]);

/**
 * What is wrong with the page as it stands, at different widths in both themes: rules of axe, and what lies beyond the
 * edge.
 * @param name of the pictures, if CDP_TEST_PICTURES names a folder for them
 */
export async function faultsOfLooks({ page, axe }: WatchedPage, name: string): Promise<string[]> {
  const before = page.viewportSize();
  const faults: string[] = [];
  const folder = process.env['CDP_TEST_PICTURES'];
  for (const [width, colorScheme] of LOOKS) {
    await page.setViewportSize({ width, height: 900 });
    // Without the change of colors that takes a moment.
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    const beyond = await page.evaluate<string[]>(BEYOND_THE_EDGE);
    faults.push(...[...(await axe()), ...beyond].map((fault) => `${name}, ${width}, ${colorScheme}: ${fault}`));
    if (folder !== undefined) await page.screenshot({ path: `${folder}/${name}-${colorScheme}-${width}.png` });
  }
  await page.emulateMedia({ colorScheme: null, reducedMotion: null });
  if (before !== null) await page.setViewportSize(before);
  return faults;
}

const BEYOND_THE_EDGE = `(() => {
  const wide = document.documentElement.scrollWidth > innerWidth ? ['the page scrolls sideways'] : [];
  const buttons = [...document.querySelectorAll('main button, dialog button, main a')].filter((button) => {
    const { width, right } = button.getBoundingClientRect();
    // The titles of a grid scroll with its cells.
    return width > 0 && right > innerWidth && button.closest('[role=grid]') === null;
  });
  // What scrolls away within its frame is beyond an edge, too.
  const links = [...document.querySelectorAll('header a, header button')].filter((link) => {
    const { left, right, width } = link.getBoundingClientRect();
    const frame = link.parentElement.getBoundingClientRect();
    return width > 0 && (right > Math.min(frame.right, innerWidth) + 1 || left < frame.left - 1);
  });
  return [
    ...wide,
    ...[...buttons, ...links].map((link) => 'beyond the edge: ' + (link.ariaLabel ?? link.innerText)),
  ];
})()`;

export async function enter(page: Page, token: string): Promise<void> {
  await page.getByLabel('Token').fill(token);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Leave' }).waitFor();
}
