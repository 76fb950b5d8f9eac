/** `cdp serve`: runs the service until a signal stops it. */
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { Command } from 'commander';
import { hasCode } from '../files.js';
import { createLogger, type Service, startService, type TraceExport } from '../service.js';
import { type Settings, SETTINGS } from '../settings.js';
import { EXIT, ExitError, PROGRAM } from './exit.js';
import { addSettings, ALL_SETTINGS, readConfig } from './setting-flags.js';
import { STOP_SIGNALS } from './signals.js';
import { colored, quoted } from './terminal/text.js';
import { terminalLog } from './terminal/readable-log.js';

export function serveCommand(): Command {
  const command = new Command('serve').description('Run the service');
  return addSettings(command, ALL_SETTINGS).action(() => serve(readConfig(command)));
}

/**
 * V8 allocates objects as old if those made at the same place in the code lived long before. Here they belong to
 * requests: old, they keep what they refer to alive until a full collection, and each small collection copies it
 * (docs/decisions/0023-the-cost-of-a-request.md).
 */
const V8_FLAGS = '--no-allocation-site-pretenuring';

async function serve(config: Settings): Promise<void> {
  setFlagsFromString(V8_FLAGS);
  let service: Service | null = null;
  const stop = new AbortController();
  const stopRequested = once(stop.signal, 'abort');
  onStopSignals(
    () => stop.abort(new Error('Stopped during the start')),
    () => service?.breakOff(),
  );
  const traces = tracesFrom(process.env);
  const { stdout } = process;
  const logger = stdout.isTTY ? createLogger(config, terminalLog(stdout)) : createLogger(config);
  try {
    service = await startService(config, logger, traces, stop.signal);
  } catch (error) {
    if (error === stop.signal.reason) return;
    if (!hasCode(error, 'EADDRINUSE')) throw error;
    throw inUse(config, error);
  }
  if (service.firstToken !== null) await showFirstToken(config, service.url, service.firstToken);
  if (stdout.isTTY) stdout.write(readyLines(config, service.url));
  await stopRequested;
  try {
    await service.close();
  } finally {
    // What could not be closed would keep the process alive, and so would a log that nobody reads.
    setTimeout(() => process.exit(), LOG_MS).unref();
  }
  // So would requests to a trace collector that does not answer.
  if (traces !== null) process.exit();
}

/** How long the rest of the log may take at the end. */
const LOG_MS = 1_000;

/**
 * npm forwards a Ctrl-C that the terminal has also sent to this process: within this time, it is the same keystroke.
 */
const SAME_KEYSTROKE_MS = 1_000;

/** The first signal, even during the start, lets running requests finish; a later one aborts them. */
function onStopSignals(first: () => void, later: () => void): void {
  let since: number | null = null;
  const stop = () => {
    if (since !== null && performance.now() - since > SAME_KEYSTROKE_MS) return later();
    since ??= performance.now();
    first();
  };
  for (const signal of STOP_SIGNALS) process.on(signal, stop);
}

/** See scripts/start.mjs. */
const isNpmStart = (): boolean => process.env.CDP_NPM_START === '1';

/** Prints the token on a terminal, otherwise writes it to a file that only the operator can read. */
async function showFirstToken(config: Settings, url: string, token: string): Promise<void> {
  if (process.stdout.isTTY || isNpmStart()) {
    process.stdout.write(firstSteps(config, url, token));
    return;
  }
  const file = join(config.dataDir, 'first-token');
  await writeFile(file, `${token}\n`, { mode: 0o600 });
  process.stderr.write(`The token of the project "default" is in ${file}\n`);
}

/** The error if a port of the service is in use. */
function inUse({ host, port: httpPort, pgPort, metricsPort }: Settings, error: unknown): ExitError {
  const { address = host, port } = error as { address?: string; port?: number };
  const ports = { '--port': httpPort, '--pg-port': pgPort, '--metrics-port': metricsPort };
  const flags = Object.entries(ports).flatMap(([name, value]) => (value === port ? [name] : []));
  const [flag = '--port', ...others] = flags;
  if (others.length > 0)
    return new ExitError(
      EXIT.refused,
      `${flags.join(' and ')} are ${flags.length === 2 ? 'both' : 'all'} ${port}; choose different ports`,
    );
  const option = isNpmStart() ? `npm start -- ${flag} PORT` : flag;
  return new ExitError(
    EXIT.refused,
    `Port ${port} of ${address} is in use by another program; choose one with ${option}`,
  );
}

/** The message for a person after the start. */
function readyLines({ console, dataDir, databaseUrl }: Settings, url: string): string {
  const isElsewhere = dataDir !== resolve(SETTINGS.dataDir.default);
  const where = databaseUrl === null && isElsewhere ? ` --data-dir ${quoted(dataDir)}` : '';
  return [
    '',
    colored(process.stdout, 'green', `Ready at ${url}`),
    ...(console ? [`  Console  ${url}/console/`] : []),
    `  API      ${url}/docs`,
    databaseUrl === null ? `  Data     ${dataDir}` : '  Data     on the Postgres of DATABASE_URL',
    `  Token    ${PROGRAM} token create --project NAME${where}`,
    '  Stop     Ctrl-C',
    '',
    '',
  ].join('\n');
}

function firstSteps({ console }: Settings, url: string, token: string): string {
  const curl = (path: string, body: string) =>
    `curl -sS "$URL${path}" \\\n  -H "Authorization: Bearer $TOKEN" \\\n  -H 'Content-Type: application/json' \\\n  -d '${body}'\n`;
  return `
The service is ready at ${url} (its API: ${url}/docs).
This is the token of the project "default". It is shown only once:

  ${token}
${
  console
    ? `
Open ${url}/console/ in a browser and paste it there, or go on here.
`
    : ''
}
Commands to try in another terminal. They read these two variables:

export URL=${url} TOKEN=${token}

Create a table:

${curl('/api/cdp/schema/table', '{"table_name": "customers", "columns": [{"name": "email", "type": "TEXT"}, {"name": "age", "type": "INTEGER"}]}')}
Insert records:

${curl('/api/cdp/data/customers', '[{"email": "ada@example.com", "age": 36}, {"email": "grace@example.com", "age": 45}]')}
Query them:

${curl('/api/cdp/sql', '{"sql": "SELECT email, age FROM customers ORDER BY age DESC"}')}
Or import a file:

${PROGRAM} login --url $URL
${PROGRAM} import FILE.csv --table NAME --create
${PROGRAM} sql 'SELECT count(*) FROM NAME'
`;
}

// Reads from OpenTelemetry's standard variables whether to export traces (its specification, "Environment Variable
// Specification"). The SDK itself reads those for headers, sampler, resource and limits.

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Naming a collector, or the exporter `otlp`, turns traces on. An invalid value is reported on standard error and turns
 * them off: platforms set these variables for everything they run, and the service must start anyway.
 * @returns null: no traces
 */
function tracesFrom(environment: Environment): TraceExport | null {
  const read = (name: string): string | null => environment[`OTEL_${name}`]?.trim() || null;
  if (read('SDK_DISABLED')?.toLowerCase() === 'true') return null;
  const endpoint = read('EXPORTER_OTLP_TRACES_ENDPOINT') ?? read('EXPORTER_OTLP_ENDPOINT');
  const exporter = read('TRACES_EXPORTER') ?? (endpoint === null ? 'none' : 'otlp');
  if (exporter === 'none') return null;
  if (exporter !== 'otlp') return refuse('TRACES_EXPORTER', exporter, 'otlp or none');
  const protocol = read('EXPORTER_OTLP_TRACES_PROTOCOL') ?? read('EXPORTER_OTLP_PROTOCOL') ?? 'http/protobuf';
  if (protocol !== 'http/protobuf' && protocol !== 'http/json') {
    return refuse('EXPORTER_OTLP_PROTOCOL', protocol, 'http/protobuf or http/json (usually port 4318)');
  }
  const propagators = (read('PROPAGATORS') ?? 'tracecontext').split(',').map((name) => name.trim());
  return { protocol, takesContext: propagators.includes('tracecontext') };
}

function refuse(name: string, value: string, expected: string): null {
  process.stderr.write(`cdp: no traces: OTEL_${name} must be ${expected}, not ${JSON.stringify(value)}\n`);
  return null;
}
