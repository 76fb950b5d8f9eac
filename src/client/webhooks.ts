/** The webhooks of a project: endpoints that get its changes. */
import type {
  ChangeWebhookBody,
  CreateWebhookBody,
  RotateSecretBody,
  Webhook,
  WebhookDeliveriesResponse,
  WebhookDelivery,
  WebhookResponse,
  WebhookSecretResponse,
  WebhooksResponse,
  WebhookTest,
  WebhookTestResponse,
} from '../contract/wire/webhooks.js';
import { toJson } from './json.js';
import { checkOptions, READ_NAMES, type ReadOptions } from './options.js';
import type { ApiCall, Transport } from './transport.js';

/** The secret is not shown again. */
export interface WebhookWithSecret {
  webhook: Webhook;
  secret: string;
}

export class Webhooks {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Sends changes to an endpoint, from now on or after the cursor `from`. */
  async create(webhook: CreateWebhookBody, options?: ReadOptions): Promise<WebhookWithSecret> {
    const created = await this.#call<WebhookSecretResponse>('POST', [], webhook, options);
    return { webhook: created.webhook, secret: created.secret };
  }

  /** The oldest first. */
  async list(options?: ReadOptions): Promise<Webhook[]> {
    return (await this.#call<WebhooksResponse>('GET', [], undefined, options)).webhooks;
  }

  async get(id: string, options?: ReadOptions): Promise<Webhook> {
    return (await this.#call<WebhookResponse>('GET', [id], undefined, options)).webhook;
  }

  /** Changes, pauses (`active: false`) or resumes it. */
  async change(id: string, change: ChangeWebhookBody, options?: ReadOptions): Promise<Webhook> {
    return (await this.#call<WebhookResponse>('PUT', [id], change, options)).webhook;
  }

  /** Gives it a new secret; the previous one also signs for a time. */
  async rotateSecret(id: string, body: RotateSecretBody = {}, options?: ReadOptions): Promise<WebhookWithSecret> {
    const rotated = await this.#call<WebhookSecretResponse>('POST', [id, 'secret'], body, options);
    return { webhook: rotated.webhook, secret: rotated.secret };
  }

  async delete(id: string, options?: ReadOptions): Promise<void> {
    await this.#call('DELETE', [id], undefined, options);
  }

  /** Sends a message without changes, and waits for the answer of the endpoint. */
  async test(id: string, options?: ReadOptions): Promise<WebhookTest> {
    return (await this.#call<WebhookTestResponse>('POST', [id, 'test'], undefined, options)).test;
  }

  /** The last attempts, the newest first. */
  async deliveries(id: string, options?: ReadOptions): Promise<WebhookDelivery[]> {
    return (await this.#call<WebhookDeliveriesResponse>('GET', [id, 'deliveries'], undefined, options)).deliveries;
  }

  /** Sends the changes after a cursor again; also resumes it. */
  async replay(id: string, from: string, options?: ReadOptions): Promise<Webhook> {
    return (await this.#call<WebhookResponse>('POST', [id, 'replay'], { from }, options)).webhook;
  }

  #call<Result>(
    method: ApiCall['method'],
    path: readonly string[],
    body: object | undefined,
    options: ReadOptions = {},
  ): Promise<Result> {
    checkOptions(options, READ_NAMES, 'a call about webhooks');
    return this.#transport.json<Result>({
      method,
      path: ['/api/cdp/webhooks', ...path.map(encodeURIComponent)].join('/'),
      ...(body === undefined ? {} : { body: toJson(body) }),
      idempotent: method === 'GET' || method === 'PUT',
      signal: options.signal,
    });
  }
}
