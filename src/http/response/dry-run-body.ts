/** The body of the response of a dry run. */
import type { Project } from '../../engine/project.js';
import type { RouteResponse } from '../api/route.js';

/** The body that the request would have got, with a report of what it would have done to the project. */
export function dryRunBody(body: RouteResponse['body'], { dryRun }: Project): RouteResponse['body'] {
  const more = { dry_run: true, impact: dryRun?.impact };
  if (body === null) throw new Error('A dry run cannot be streamed');
  if (typeof body === 'object' && !Array.isArray(body)) return { ...body, ...more };
  // The response of free SQL is one JSON object, as text or in pieces.
  const pieces = typeof body === 'string' ? [Buffer.from(body)] : (body as readonly Buffer[]);
  const last = pieces.at(-1)?.subarray(0, -1) ?? Buffer.alloc(0);
  return [...pieces.slice(0, -1), last, Buffer.from(`,${JSON.stringify(more).slice(1)}`)];
}
