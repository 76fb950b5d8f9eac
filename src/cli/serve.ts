/** `cdp serve`: runs the service until it is told to stop. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Command } from 'commander';
import type { Config } from '../settings.js';
import { createLogger, type Service, startService } from '../service.js';
import { STOP_SIGNALS } from '../stop-signals.js';
import { ALL_SETTINGS, addSettings, readConfig } from './settings.js';
import { tracesFrom } from './traces.js';

export function serveCommand(): Command {
  const command = new Command('serve').description('Run the service');
  return addSettings(command, ALL_SETTINGS).action(() => serve(readConfig(command)));
}

async function serve(config: Config): Promise<void> {
  let service: Service | null = null;
  const stopped = new Promise<void>((resolve) => onStopSignals(resolve, () => service?.breakOff()));
  const traces = tracesFrom(process.env);
  service = await startService(config, createLogger(config), traces);
  if (service.firstToken !== null) await showFirstToken(config, service.url, service.firstToken);
  await stopped;
  await service.close();
  // What is still under way to a collector that does not answer would hold the process up,
  if (traces !== null) process.exit();
  // and so would a log that nobody reads.
  setTimeout(() => process.exit(), LOG_MS).unref();
}

/** What is left of the log when all is done has so long to be taken. */
const LOG_MS = 1_000;

/** npm passes on a Ctrl-C that the terminal has sent to us as well: within this time it is the same one. */
const ONE_KEYSTROKE_MS = 1_000;

/**
 * The first signal, also one that comes during the start, lets running requests finish; a later one does not. SIGHUP is what
 * comes when a terminal is closed; there is nothing that could be read anew.
 */
function onStopSignals(first: () => void, later: () => void): void {
  let since: number | null = null;
  const heard = () => {
    if (since !== null && performance.now() - since > ONE_KEYSTROKE_MS) return later();
    since ??= performance.now();
    first();
  };
  for (const signal of STOP_SIGNALS) process.on(signal, heard);
}

/** Once, where a person sees it; else into a file that only the operator can read. */
async function showFirstToken(config: Config, url: string, token: string): Promise<void> {
  if (process.stdout.isTTY || process.env.CDP_NPM_START === '1') {
    process.stdout.write(welcomeText(url, token));
    return;
  }
  const file = join(config.dataDir, 'first-token');
  await writeFile(file, `${token}\n`, { mode: 0o600 });
  process.stderr.write(`The token of the project "default" is in ${file}\n`);
}

function welcomeText(url: string, token: string): string {
  const curl = (path: string, body: string) =>
    `curl -sS ${url}${path} \\\n  -H 'Authorization: Bearer ${token}' \\\n  -H 'Content-Type: application/json' \\\n  -d '${body}'\n`;
  return `
The service is ready at ${url} (its API: ${url}/docs).
This is the token of the project "default". It is shown this once:

  ${token}

Three commands to try. Create a table:

${curl('/api/cdp/schema/table', '{"table_name": "customers", "columns": [{"name": "email", "type": "TEXT"}, {"name": "age", "type": "INTEGER"}]}')}
Insert records:

${curl('/api/cdp/data/customers', '[{"email": "ada@example.com", "age": 36}, {"email": "grace@example.com", "age": 45}]')}
Ask a question:

${curl('/api/cdp/sql', '{"sql": "SELECT email, age FROM customers ORDER BY age DESC"}')}
Or bring a file, in another terminal:

npx cdp login --url ${url}
npx cdp import FILE.csv --table NAME --create
npx cdp sql 'SELECT count(*) FROM NAME'
`;
}
