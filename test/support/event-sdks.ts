/** Other people's SDKs that send events, from the packages of `test/tools/clients`. */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const load = createRequire(new URL('../tools/clients/package.json', import.meta.url));

type Message = Record<string, unknown>;

/** What both SDKs for Node have in common. */
export interface Sender {
  track(message: Message): void;
  identify(message: Message): void;
  page(message: Message): void;
  screen(message: Message): void;
  group(message: Message): void;
  alias(message: Message): void;
}

/** Sends what it has every tenth of a second. */
type Open = (url: string, key: string) => Sender;

const flushInterval = 100;

const segment: Open = (host, writeKey) => {
  const { Analytics } = load('@segment/analytics-node') as { Analytics: new (settings: object) => Sender };
  return new Analytics({ writeKey, host, flushInterval });
};

/**
 * As docs/events.md advises: with its default of 3 attempts, it would give up after 1.5 seconds; without a handler, whatever it
 * gives up ends the process.
 */
const rudder: Open = (dataPlaneUrl, key) => {
  const Rudder = load('@rudderstack/rudder-sdk-node') as new (key: string, settings: object) => Sender;
  return new Rudder(key, {
    dataPlaneUrl,
    flushInterval,
    retryCount: 12,
    errorHandler: () => undefined,
    logLevel: 'none',
  });
};

export const NODE_SDKS: readonly (readonly [string, Open])[] = [
  ['@segment/analytics-node', segment],
  ['@rudderstack/rudder-sdk-node', rudder],
];

/** The script of `@segment/analytics-next` for pages; `AnalyticsNext` is its global. */
export const browserSdk = (): string =>
  join(dirname(load.resolve('@segment/analytics-next/package.json')), 'dist/umd/index.js');
