/** `cdp console`: the address of the web console, opened in a browser if there is a screen. */
import { spawn } from 'node:child_process';
import { Command } from 'commander';
import { UsageError } from '../exit.js';
import { printLines } from '../terminal/output.js';
import { ENVIRONMENT, findProfile, requireUrl } from './connection.js';
import { remoteOptions } from './options.js';

const THIS_MACHINE = 'http://127.0.0.1:8080';

export function consoleCommand(): Command {
  const command = remoteOptions(new Command('console'))
    .description('Open the web console in a browser, and print its address')
    .option(
      '--url <URL>',
      `Address of the service (default: ${ENVIRONMENT.url}, else from the profile, else this machine)`,
    );
  return command.action(() => open(command.opts<{ url?: string; profile?: string }>()));
}

async function open({ url: given, profile }: { url?: string; profile?: string }): Promise<void> {
  const url = given ?? (await addressOf(profile));
  requireUrl(url);
  const address = `${url.replace(/\/+$/, '')}/console/`;
  printLines([address]);
  const opener = openerFor(process.platform);
  // No shell, and it is a URL: no part of it is an option or a command. Without such a program the address must do.
  if (opener !== null)
    spawn(opener, [address], { stdio: 'ignore', detached: true })
      .on('error', () => {})
      .unref();
}

/** No token is needed: people enter theirs in the console. */
async function addressOf(profile: string | undefined): Promise<string> {
  const variable = process.env[ENVIRONMENT.url];
  if (profile === undefined && variable) return variable;
  try {
    return (await findProfile(profile)).url;
  } catch (error) {
    if (profile !== undefined || !(error instanceof UsageError)) throw error;
    return THIS_MACHINE;
  }
}

function openerFor(platform: NodeJS.Platform): string | null {
  if (platform === 'darwin') return 'open';
  const hasScreen = [process.env.DISPLAY, process.env.WAYLAND_DISPLAY].some(Boolean);
  return hasScreen ? 'xdg-open' : null;
}
