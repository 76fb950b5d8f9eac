/** Where the machine's browser is. */
import { existsSync } from 'node:fs';

const BROWSERS = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/usr/bin/google-chrome-stable',
];

export function findBrowser(): string {
  const found = [process.env.CHROME_PATH, ...BROWSERS].find((path) => path !== undefined && existsSync(path));
  if (found === undefined) {
    throw new Error('This test needs a Chromium: install one (apt-get install chromium), or name it in CHROME_PATH');
  }
  return found;
}
