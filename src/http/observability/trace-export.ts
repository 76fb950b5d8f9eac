/**
 * Sends spans of requests to a collector, by OpenTelemetry's SDK, which reads the standard variables itself. Loaded
 * only if traces are configured.
 */
import { randomUUID } from 'node:crypto';
import { diag, DiagLogLevel } from '@opentelemetry/api';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { BasicTracerProvider, BatchSpanProcessor, type SpanExporter } from '@opentelemetry/sdk-trace-base';
import type { Logger } from 'pino';
import { RequestSpans } from './request-spans.js';
import type { TraceDetail } from './request-tracer.js';
import { VERSION } from '../../version.js';

/** The variables that the SDK leaves to the program. */
export interface TraceExport {
  readonly protocol: 'http/protobuf' | 'http/json';
  /** Whether a request may say which trace it belongs to. */
  readonly takesContext: boolean;
}

/** How long a stop waits for the collector to accept the last spans. */
const FLUSH_MS = 3_000;

const NAME = 'cdp-data-engine';

export class Tracing {
  private constructor(
    readonly spans: RequestSpans,
    private readonly provider: BasicTracerProvider,
  ) {}

  static async open(settings: TraceExport, detail: TraceDetail, logger: Logger): Promise<Tracing> {
    const { protocol, takesContext } = settings;
    let isOpen = false;
    // Wrong variables are warnings. Later there would be a line for each batch that cannot be sent.
    const warn = (message: string) => logger[isOpen ? 'debug' : 'warn']({ cause: message }, 'tracing');
    const silent = () => {};
    const diagnostics = { error: warn, warn, info: silent, debug: silent, verbose: silent };
    diag.setLogger(diagnostics, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
    const exporter = new ReportingExporter(await otlpExporter(protocol), logger);
    const provider = new BasicTracerProvider({
      resource: defaultResource()
        .merge(
          resourceFromAttributes({
            'service.name': NAME,
            'service.version': VERSION,
            'service.instance.id': randomUUID(),
          }),
        )
        .merge(detectResources({ detectors: [envDetector] })),
      spanProcessors: [new BatchSpanProcessor(exporter)],
    });
    const spans = new RequestSpans(provider.getTracer(NAME, VERSION), { detail, takesContext });
    isOpen = true;
    return new Tracing(spans, provider);
  }

  /**
   * Sends what is left, as far as the collector accepts it within {@link FLUSH_MS}. A request that is still running
   * then keeps the process alive.
   */
  async close(): Promise<void> {
    let late: NodeJS.Timeout | undefined;
    const isLate = new Promise<void>((resolve) => (late = setTimeout(resolve, FLUSH_MS)));
    await Promise.race([this.provider.shutdown().catch(() => {}), isLate]);
    clearTimeout(late);
  }
}

async function otlpExporter(protocol: TraceExport['protocol']): Promise<SpanExporter> {
  const { OTLPTraceExporter } =
    protocol === 'http/json'
      ? await import('@opentelemetry/exporter-trace-otlp-http')
      : await import('@opentelemetry/exporter-trace-otlp-proto');
  return new OTLPTraceExporter();
}

/** `ExportResultCode.SUCCESS` of `@opentelemetry/core`, which we need nothing else of. */
const SUCCESS = 0;

type Done = Parameters<SpanExporter['export']>[1];

/** Logs once that spans do not arrive, and once that they do again, with the number of lost ones. */
class ReportingExporter implements SpanExporter {
  private lost = 0;

  constructor(
    private readonly exporter: SpanExporter,
    private readonly logger: Logger,
  ) {}

  export(spans: Parameters<SpanExporter['export']>[0], done: Done): void {
    this.exporter.export(spans, (result) => {
      if (Number(result.code) === SUCCESS) this.arrived();
      else this.failed(spans.length, result.error);
      done(result);
    });
  }

  forceFlush(): Promise<void> {
    return this.exporter.forceFlush?.() ?? Promise.resolve();
  }

  shutdown(): Promise<void> {
    return this.exporter.shutdown();
  }

  private arrived(): void {
    if (this.lost > 0) this.logger.info({ lost: this.lost }, 'spans reach the collector again');
    this.lost = 0;
  }

  private failed(count: number, error: Error | undefined): void {
    if (this.lost === 0) {
      // If a name has several addresses, the error has no message.
      const cause = error?.message || (error as NodeJS.ErrnoException | undefined)?.code;
      this.logger.warn({ cause }, 'spans do not reach the collector; they are lost');
    }
    this.lost += count;
  }
}
