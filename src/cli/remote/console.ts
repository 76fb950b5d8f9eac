/** `cdp console`: prints the address of the web console, and opens it in a browser if there is a display. */
import { spawn } from 'node:child_process';
import { Command } from 'commander';
import { UsageError } from '../exit.js';
import { printLines } from '../terminal/output.js';
import { ENVIRONMENT, findProfile, requireUrl, withoutSlash } from './profiles.js';
import { remoteOptions } from './remote-options.js';

const THIS_MACHINE = 'http://127.0.0.1:8080';

export function consoleCommand(): Command {
  const command = remoteOptions(new Command('console'))
    .description('Open the web console in a browser, and print its address')
    .option('--url <URL>', `Address of the service (default: ${ENVIRONMENT.url}, then the profile, then this machine)`);
  return command.action(() => open(command.opts<{ url?: string; profile?: string }>()));
}

async function open({ url: urlOption, profile }: { url?: string; profile?: string }): Promise<void> {
  const url = urlOption ?? (await addressOf(profile));
  requireUrl(url);
  const address = `${withoutSlash(url)}/console/`;
  printLines([address]);
  const opener = openerFor(process.platform);
  // Without a shell, no part of the URL can be a command or an option. If the program is missing, the printed address
  // must do.
  if (opener !== null)
    spawn(opener, [address], { stdio: 'ignore', detached: true })
      .on('error', () => {})
      .unref();
}

/** Needs no token: people enter theirs in the console. */
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
