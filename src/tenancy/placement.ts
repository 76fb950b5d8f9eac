/** Where a project lives. One small value, so that projects can be spread over servers later. */
export interface Placement {
  /** The project's own database. The group role of the same name may connect to it, no one else. */
  readonly database: string;
  /** The project's schema in it, owned by the service. */
  readonly schema: string;
  /** Login role that owns what the project makes. */
  readonly writer: string;
  /** Login role that may only read. */
  readonly reader: string;
}
