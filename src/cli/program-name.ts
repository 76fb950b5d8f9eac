/** What to type for this program where its messages are read. */

/**
 * npm says that it started this process: then `cdp` need not be in the PATH, and `npx cdp` could be a package of that
 * name.
 */
const { npm_command: npmCommand } = process.env;

export const PROGRAM = npmCommand === undefined ? 'cdp' : 'npx cdp-data-engine';

/** A message of the service, which does not know this, with its commands as they can be typed here. */
export const typed = (message: string): string => message.replace(/(?<![\w./-])cdp (?=[a-z])/g, `${PROGRAM} `);
