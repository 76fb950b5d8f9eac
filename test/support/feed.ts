/** Reads the feed of a project in tests. */
import { expect } from 'vitest';
import type { TestProject } from './service.js';

export interface FeedChange {
  readonly cursor: string;
  readonly op: string;
  readonly table: string;
  readonly committed_at: string;
  readonly transaction: string;
  readonly [member: string]: unknown;
}

export interface ChangesPage {
  readonly changes: FeedChange[];
  readonly cursor: string;
}

/** A page that must be read. @param query such as `?after=…` */
export async function readChanges(project: TestProject, query = '', token?: string): Promise<ChangesPage> {
  const response = await project.call('GET', `/api/cdp/changes${query}`, token === undefined ? {} : { token });
  expect(response.text).toMatch(/^\{"success":true/);
  return response.body as unknown as ChangesPage;
}

/** Turns the feed on, and returns the project as a token sees it then. */
export async function withFeed(project: TestProject, settings: object = {}): Promise<TestProject> {
  const response = await project.call('PUT', '/api/cdp/feed', { body: settings });
  expect(response.text).toContain('"status":"reading"');
  return project.seenAnew();
}

/** All changes after a cursor up to now. */
export async function changesUntilNow(project: TestProject, after: string, query = ''): Promise<FeedChange[]> {
  const { cursor: end } = await readChanges(project);
  const changes: FeedChange[] = [];
  for (let cursor = after; cursor !== end;) {
    const page = await readChanges(project, `?after=${cursor}${query}`);
    changes.push(...page.changes);
    if (page.cursor === cursor) break;
    cursor = page.cursor;
  }
  return changes;
}

/** What some work changes. */
export async function changesOf(project: TestProject, work: () => Promise<unknown>, query = ''): Promise<FeedChange[]> {
  const { cursor } = await readChanges(project);
  await work();
  return changesUntilNow(project, cursor, query);
}

/** Without what is different each time. */
export const bare = (changes: readonly FeedChange[]): Record<string, unknown>[] =>
  changes.map(({ cursor, committed_at, transaction, ...rest }) => {
    expect([cursor, committed_at, transaction].every((value) => typeof value === 'string')).toBe(true);
    return rest;
  });

/** Changes in few words: `insert t`, `schema t created`. */
export const words = (changes: readonly FeedChange[]): string[] =>
  changes.map(({ op, table, change, snapshot }) =>
    op === 'schema' ? `${op} ${table} ${String(change)}${snapshot === true ? ' snapshot' : ''}` : `${op} ${table}`,
  );
