/** Streaming replicas on the wire: those of a server, and the header with which a read requests one. */
import { URL_REFERENCE } from '../patterns.js';
import { Type } from '../schema.js';
import { CONSISTENCIES } from '../servers.js';

const CONSISTENCY = Type.Enum(CONSISTENCIES);

/** Headers of free SQL, besides that of its key. */
export const SqlHeaders = Type.Object({
  'X-Consistency': Type.Optional(
    Type.String({ description: 'The position from the response to a write: a bounded read then sees that write.' }),
  ),
});

export const readConsistency = {
  consistency: Type.Optional({
    ...CONSISTENCY,
    description:
      'For a request that only reads. `bounded`: it may run on a streaming replica and see an older state, but none before the ' +
      'position in the header `X-Consistency`. Default: that of the server, which is `strong` (on the primary) unless changed.',
  }),
};

/** Fields in the body of a request for a server. */
export const replicasOfServer = {
  replicas: Type.Optional(
    Type.Array(Type.String({ pattern: URL_REFERENCE, maxLength: 4_096 }), {
      maxItems: 16,
      uniqueItems: true,
      description: 'Where every instance reads the URLs of its streaming replicas, as in `url_reference`.',
      examples: [['env:EU_1_REPLICA_URL']],
    }),
  ),
  consistency: Type.Optional({
    ...CONSISTENCY,
    description: 'For reads by free SQL that do not specify a consistency. Default: `strong`.',
  }),
};
