/** The log of the service: what an operator should know (`info`), watch (`warn`) or act on (`error`). */
export interface Log {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}
