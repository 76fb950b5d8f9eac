/** Loads the settings from flags, environment and file, and checks that they are consistent. */
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Setting } from '../setting-kinds.js';
import { type Settings, type SettingName, SETTINGS } from '../settings.js';

/** The source of a value, for `cdp config`. */
export type SettingSource = 'flag' | 'environment' | 'file' | 'default';

export interface LoadedConfig {
  config: Settings;
  sources: Record<SettingName, SettingSource>;
  /** The text of each value other than a default. */
  written: Partial<Record<SettingName, string>>;
}

/** An error that names the wrong setting as the operator wrote it. */
export class ConfigError extends Error {}

/** Default name of the settings file, in the current folder. */
export const CONFIG_FILE = 'cdp.config.json';

/**
 * Flags take precedence over the environment, the environment over the file, and the file over defaults.
 * @param flags by flag name, as text
 * @param file path of the JSON file; null: {@link CONFIG_FILE}, if it exists
 * @throws ConfigError
 */
export function loadConfig(
  flags: Readonly<Record<string, string | undefined>>,
  environment: Readonly<Record<string, string | undefined>>,
  file: string | null,
): LoadedConfig {
  const fromFile = readFile(file);
  const config: Partial<Record<SettingName, unknown>> = {};
  const sources: Partial<Record<SettingName, SettingSource>> = {};
  const written: Partial<Record<SettingName, string>> = {};
  for (const name of Object.keys(SETTINGS) as SettingName[]) {
    const row = SETTINGS[name] as Setting<unknown>;
    const candidates: [SettingSource, string, string | undefined][] = [
      ['flag', `--${row.flag}`, flags[row.flag]],
      ['environment', ...fromEnvironment(row, environment)],
      ['file', `"${row.flag}" in the settings file`, fromFile[row.flag]],
    ];
    const chosen = candidates.find(([, , value]) => value !== undefined);
    sources[name] = chosen?.[0] ?? 'default';
    if (chosen?.[2] === undefined) {
      config[name] = row.default;
    } else {
      written[name] = chosen[2];
      config[name] = parse(row, chosen[1], chosen[2]);
    }
  }
  config.dataDir = resolve(config.dataDir as string);
  return {
    config: requireConsistent(config as Settings),
    sources: sources as Record<SettingName, SettingSource>,
    written,
  };
}

/**
 * The variable for a setting, and its value. A secret may be in a file named by NAME_FILE.
 * @throws ConfigError
 */
function fromEnvironment(
  { env, secret }: Setting<unknown>,
  environment: Readonly<Record<string, string | undefined>>,
): [string, string | undefined] {
  const valueOf = (name: string) => (environment[name] === '' ? undefined : environment[name]);
  const inFile = `${env}_FILE`;
  const path = secret ? valueOf(inFile) : undefined;
  if (path === undefined) return [env, valueOf(env)];
  if (valueOf(env) !== undefined) throw new ConfigError(`${env} and ${inFile} are both set: set one of them`);
  try {
    return [inFile, readFileSync(path, 'utf8').replace(/\r?\n$/, '')];
  } catch (error) {
    throw new ConfigError(`${inFile}: the file cannot be read: ${(error as Error).message}`);
  }
}

function parse(row: Setting<unknown>, label: string, value: string): unknown {
  try {
    return row.parse(value);
  } catch (error) {
    throw new ConfigError(`${label}: ${(error as Error).message}`);
  }
}

function readFile(file: string | null): Record<string, string> {
  const path = file ?? join(process.cwd(), CONFIG_FILE);
  if (file === null && !existsSync(path)) return {};
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new ConfigError(`The settings file ${path} cannot be read: ${(error as Error).message}`);
  }
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    throw new ConfigError(`${path} must contain a JSON object`);
  }
  const flags = new Set(Object.values(SETTINGS).map(({ flag }) => flag));
  return Object.fromEntries(
    Object.entries(content).map(([key, value]) => {
      if (!flags.has(key)) throw new ConfigError(`${path} has an unknown setting "${key}"`);
      if (!['string', 'number', 'boolean'].includes(typeof value)) {
        throw new ConfigError(`${path}: "${key}" must be a string, a number, true or false`);
      }
      return [key, String(value)];
    }),
  );
}

/** Checks that concern several settings. */
function requireConsistent(config: Settings): Settings {
  if (config.databaseUrl !== null && config.secret === null) {
    throw new ConfigError(
      'With DATABASE_URL a secret is required: set CDP_SECRET to at least 32 random characters, the same for all instances',
    );
  }
  if (config.secretPrevious !== null && config.secret === null) {
    throw new ConfigError('secret-previous is set, but secret is not');
  }
  if (config.projectReserved >= config.projectRunning) {
    throw new ConfigError('project-reserved must be less than project-running');
  }
  const jwt = [config.jwtIssuer, config.jwtAudience, config.jwtJwksUrl].filter((value) => value !== null);
  if (jwt.length !== 0 && jwt.length !== 3) {
    throw new ConfigError('Set all of jwt-issuer, jwt-audience and jwt-jwks-url, or none');
  }
  if ((config.tlsCert === null) !== (config.tlsKey === null))
    throw new ConfigError('Set both tls-cert and tls-key, or neither');
  const pgHost = config.pgHost ?? config.host;
  if (config.pgPort !== null && config.tlsCert === null && !config.pgPlain && !LOOPBACK.test(pgHost)) {
    throw new ConfigError(
      `Tokens would be sent unencrypted over the network: set tls-cert and tls-key for Postgres clients on ${pgHost}, or a pg-host on loopback, ` +
        'or pg-plain if a proxy in front terminates TLS',
    );
  }
  return config;
}

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|::1)$/;
