/**
 * Each worker's part of the limits that are set for the whole service: together they keep to them, and none has to ask
 * another (docs/decisions/0030).
 */
import { CONNECTIONS_BESIDE_PROJECTS } from '../tenancy/service-pool.js';
import type { Config } from '../settings.js';

/** Two of everything that one request could keep from another: the least that the settings themselves allow. */
const LEAST = 2;

/**
 * @param connections to projects' databases that the whole service may have
 * @param number of the worker, from 1
 */
export function shareOf(config: Config, connections: number, number: number): Config {
  const { workers } = config;
  // What does not divide goes to the first ones.
  const part = (whole: number) => Math.floor(whole / workers) + (number <= whole % workers ? 1 : 0);
  const projectRunning = part(config.projectRunning);
  return {
    ...config,
    maxConnections: Math.max(LEAST, part(connections - CONNECTIONS_BESIDE_PROJECTS * (workers - 1))),
    running: part(config.running),
    projectRunning,
    // Each keeps some, else slow queries would stop the inserts that happen to come to it.
    projectReserved: Math.min(Math.ceil(config.projectReserved / workers), projectRunning - 1),
    projectWaiting: part(config.projectWaiting),
    // 0 would be no limit.
    wrongTokens: Math.ceil(config.wrongTokens / workers),
  };
}
