/** The segments of a project: the keys that a query yields, kept as members. */
import type { RunScheduleResponse } from '../contract/wire/schedules.js';
import type {
  DetailedSegment,
  DetailedSegmentResponse,
  Segment,
  SegmentBody,
  SegmentResponse,
  SegmentsResponse,
} from '../contract/wire/segments.js';
import { type CallOptions, checkOptions, READ_NAMES, type ReadOptions } from './options.js';
import { readRows } from './row-stream.js';
import { savedCall } from './saved.js';
import type { ApiCall, Transport } from './transport.js';

export interface RunSegmentOptions extends CallOptions {
  /** Also if it changes more than `max_change`. */
  force?: true;
}

export interface Member {
  key: string;
  entered_at: string;
}

export class Segments {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** By name, each with its last run. */
  async list(options?: ReadOptions): Promise<Segment[]> {
    return (await this.#call<SegmentsResponse>('GET', [], undefined, options)).segments;
  }

  /** With its last runs. */
  async get(name: string, options?: ReadOptions): Promise<DetailedSegment> {
    return (await this.#call<DetailedSegmentResponse>('GET', [name], undefined, options)).segment;
  }

  /** Makes or replaces a segment. */
  async save(name: string, segment: SegmentBody, options?: ReadOptions): Promise<Segment> {
    return (await this.#call<SegmentResponse>('PUT', [name], segment, options)).segment;
  }

  /** Finds its members now, and returns after 30 s at most, while a longer run goes on. Rejects with the error of the run. */
  run(name: string, { force, ...options }: RunSegmentOptions = {}): Promise<RunScheduleResponse> {
    const call = savedCall('POST', ['segments', name, 'run'], undefined, options);
    const path = force ? `${call.path}${call.path.includes('?') ? '&' : '?'}force=true` : call.path;
    return this.#transport.json({ ...call, path });
  }

  async pause(name: string, options?: ReadOptions): Promise<Segment> {
    return (await this.#call<SegmentResponse>('POST', [name, 'pause'], undefined, options)).segment;
  }

  async resume(name: string, options?: ReadOptions): Promise<Segment> {
    return (await this.#call<SegmentResponse>('POST', [name, 'resume'], undefined, options)).segment;
  }

  /** Deletes a segment with its members and runs; its changes stay. */
  async delete(name: string, options?: ReadOptions): Promise<void> {
    await this.#call('DELETE', [name], undefined, options);
  }

  /** All of them, by key, as fast as the caller takes them. */
  async *members(name: string, options: ReadOptions = {}): AsyncGenerator<Member, void> {
    checkOptions(options, READ_NAMES, 'members');
    const call = savedCall('GET', ['segments', name, 'members'], undefined, options);
    const response = await this.#transport.open({ ...call, headers: { accept: 'application/x-ndjson' } });
    yield* readRows<Member>(response, options.signal);
  }

  #call<Result>(
    method: ApiCall['method'],
    path: readonly string[],
    body: object | undefined,
    options?: ReadOptions,
  ): Promise<Result> {
    return this.#transport.json<Result>(savedCall(method, ['segments', ...path], body, options));
  }
}
