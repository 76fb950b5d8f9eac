/**
 * Sends spans of requests to a collector with OpenTelemetry's SDK, which reads the standard variables itself. Loaded
 * only if traces are configured.
 */
import { randomUUID } from 'node:crypto';
import { diag, DiagLogLevel } from '@opentelemetry/api';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { BasicTracerProvider, BatchSpanProcessor, type SpanExporter } from '@opentelemetry/sdk-trace-base';
import type { Logger } from 'pino';
import { RequestSpans } from './request-spans.js';
import type { TraceDetail } from './trace-context.js';
import { VERSION } from '../../version.js';

/** Settings that the SDK leaves to the program. */
export interface TraceExport {
  readonly protocol: 'http/protobuf' | 'http/json';
  /** Whether to accept the trace context of a request. */
  readonly takesContext: boolean;
}

/** How long a shutdown waits for the collector to accept the last spans. */
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
    // Warn only about wrong variables at the start; later, the SDK reports every batch that it cannot send.
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
   * Sends the remaining spans, if the collector accepts them within {@link FLUSH_MS}. A transfer that is still running
   * then keeps the process alive.
   */
  async close(): Promise<void> {
    let late: NodeJS.Timeout | undefined;
    const isLate = new Promise<void>((resolve) => (late = setTimeout(resolve, FLUSH_MS)));
    // The exporter has logged that spans are lost.
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

/** `ExportResultCode.SUCCESS` of `@opentelemetry/core`, copied to avoid the dependency. */
const SUCCESS = 0;

type Done = Parameters<SpanExporter['export']>[1];

/** Logs once when spans stop arriving, and once when they arrive again, with the number lost. */
class ReportingExporter implements SpanExporter {
  private lostSpans = 0;

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
    if (this.lostSpans > 0) this.logger.info({ lost: this.lostSpans }, 'spans reach the collector again');
    this.lostSpans = 0;
  }

  private failed(count: number, error: Error | undefined): void {
    if (this.lostSpans === 0) {
      // If a name has several addresses, the error has no message.
      const cause = error?.message || (error as NodeJS.ErrnoException | undefined)?.code;
      this.logger.warn({ cause }, 'spans do not reach the collector; they are lost');
    }
    this.lostSpans += count;
  }
}
