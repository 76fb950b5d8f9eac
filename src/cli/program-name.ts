/** The command that starts this program, for its messages. */

/**
 * Set if npm started this process: then `cdp` may not be in the PATH, and `npx cdp` could run another package of that
 * name.
 */
const { npm_command: npmCommand } = process.env;

export const PROGRAM = npmCommand === undefined ? 'cdp' : 'npx cdp-data-engine';

/** Replaces `cdp` in commands within a message of the service, which does not know this name. */
export const typed = (message: string): string => message.replace(/(?<![\w./-])cdp (?=[a-z])/g, `${PROGRAM} `);
