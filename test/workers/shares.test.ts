/** Each worker's part of the limits: all parts together are what is set, and each is enough to work with. */
import { describe, expect, it } from 'vitest';
import { ConfigError, loadConfig } from '../../src/config.js';
import type { Config } from '../../src/settings.js';
import { shareOf } from '../../src/workers/shares.js';

function sharesOf(settings: Record<string, string>, connections: number): Config[] {
  const { config } = loadConfig(settings, {}, null);
  return Array.from({ length: config.workers }, (_, i) => shareOf(config, connections, i + 1));
}

const sum = (shares: readonly Config[], of: (share: Config) => number): number =>
  shares.reduce((all, share) => all + of(share), 0);

describe('works', () => {
  it('two workers have half of everything that is set by default, and the rest is as it was', () => {
    const [one, two] = sharesOf({ workers: '2' }, 80);
    expect(one).toEqual(two);
    expect(one).toMatchObject({
      maxConnections: 35,
      running: 40,
      projectRunning: 4,
      projectReserved: 1,
      projectWaiting: 32,
      wrongTokens: 15,
      waitMs: 5_000,
    });
  });

  it.each([2, 3, 4])('%i workers never run more than one process may', (workers) => {
    const shares = sharesOf({ workers: String(workers) }, 80);
    expect(sum(shares, ({ projectRunning }) => projectRunning)).toBe(8);
    expect(sum(shares, ({ running }) => running)).toBe(80);
    // Each has some connections beside those to projects.
    expect(sum(shares, ({ maxConnections }) => (maxConnections ?? 0) + 10)).toBe(80 + 10);
    // Of free SQL as well, though each worker keeps some for the inserts that come to it.
    expect(sum(shares, ({ projectRunning, projectReserved }) => projectRunning - projectReserved)).toBeLessThanOrEqual(
      6,
    );
    for (const { projectRunning, projectReserved } of shares) {
      expect(projectReserved).toBeGreaterThanOrEqual(1);
      expect(projectRunning).toBeGreaterThan(projectReserved);
    }
  });

  it('what is off stays off', () => {
    for (const share of sharesOf(
      { workers: '2', 'wrong-tokens': '0', 'project-waiting': '0', 'project-reserved': '0' },
      80,
    )) {
      expect(share).toMatchObject({ wrongTokens: 0, projectWaiting: 0, projectReserved: 0 });
    }
  });

  it('of a little is never nothing, where that would be no limit, nor all that there is', () => {
    const little = { workers: '2', 'wrong-tokens': '1', 'project-running': '4', 'project-reserved': '3' };
    for (const share of sharesOf(little, 80)) {
      expect(share).toMatchObject({ wrongTokens: 1, projectRunning: 2, projectReserved: 1 });
    }
  });

  it('auto is half as many as there are processors, one at least, and no more than the limits can be divided by', () => {
    const { config } = loadConfig({ workers: 'auto', 'project-running': '3' }, {}, null);
    expect(config.workers).toBe(1);
    const { workers } = loadConfig({ workers: 'auto' }, {}, null).config;
    expect(workers).toBeGreaterThanOrEqual(1);
    expect(workers).toBeLessThanOrEqual(4);
  });
});

describe('refuses', () => {
  it('more workers than a project may have pairs of requests running', () => {
    expect(loadConfig({ workers: '4' }, {}, null).config.workers).toBe(4);
    expect(() => loadConfig({ workers: '5' }, {}, null)).toThrow(ConfigError);
    expect(loadConfig({ workers: '5', 'project-running': '10' }, {}, null).config.workers).toBe(5);
    expect(() => loadConfig({ workers: '5', 'project-running': '10', running: '9' }, {}, null)).toThrow(ConfigError);
  });
});
