/** `X-Consistency`: what the answer to a write tells of its server's position, for reads at a replica that are to see it. */
import type { Call } from '../api/route.js';

/** Of a project whose server has replicas. The write is done; what follows waits for one question to the server. */
export async function tellPosition({ request, reply }: Call): Promise<void> {
  const { project, sql } = request.context;
  if (project === null || request.method === 'GET' || sql?.readOnly) return;
  void reply.header('x-consistency', await project.position());
}
