/** Segments on the wire: the keys that a query yields, kept as members of the segment (docs/segments.md). */
import { LIMITS } from '../limits.js';
import { STRICT, type Static, Type } from '../schema.js';
import { success } from './fields.js';
import { limits, SavedSql, scheduleFields, ScheduleRun, timing } from './schedules.js';

const MaxChange = Type.Nullable(
  Type.Number({
    minimum: 0,
    maximum: 10_000,
    description:
      'A run that lets more members enter and leave than this percentage of those that there are is refused, unless it is forced. ' +
      'Default: none is. The first run is not.',
  }),
);

export const SegmentBody = Type.Object(
  { sql: SavedSql, ...timing, ...limits, max_change: Type.Optional(MaxChange) },
  { ...STRICT, description: '`sql` is one query with a column `key`. Keys are kept as text; NULL is left out.' },
);
export type SegmentBody = Static<typeof SegmentBody>;

const { role: _, ...shared } = scheduleFields;
const segment = { ...shared, max_change: MaxChange };

export const Segment = Type.Object(segment);
export type Segment = Static<typeof Segment>;

export const SegmentResponse = Type.Object({ ...success, segment: Segment });
export type SegmentResponse = Static<typeof SegmentResponse>;

export const SegmentsResponse = Type.Object({ ...success, segments: Type.Array(Segment) });
export type SegmentsResponse = Static<typeof SegmentsResponse>;

export const DetailedSegment = Type.Object({
  ...segment,
  runs: Type.Array(ScheduleRun, { description: `The last ${LIMITS.runsKept}, the newest first. \`rows\`: changes.` }),
});
export type DetailedSegment = Static<typeof DetailedSegment>;

export const DetailedSegmentResponse = Type.Object({ ...success, segment: DetailedSegment });
export type DetailedSegmentResponse = Static<typeof DetailedSegmentResponse>;

export const DeleteSegmentResponse = Type.Object({ ...success, segment: Type.String() });
export type DeleteSegmentResponse = Static<typeof DeleteSegmentResponse>;

export const RunSegmentQuery = Type.Object({
  force: Type.Optional(Type.Literal('true', { description: 'Also if it changes more than `max_change`.' })),
});
