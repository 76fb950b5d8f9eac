/**
 * What browsers are told about every answer: data that no page may run, frame, guess the type of or leak the address of
 * (OWASP, REST Security Cheat Sheet). Fixed here once; no request computes a header.
 *
 * HTTPS is the proxy's, and so is `Strict-Transport-Security`: on plain HTTP browsers ignore it (RFC 6797 section 8.1).
 */

/** The names in lower case, as Fastify keeps them. */
export const SECURITY_HEADERS = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
} as const;

/**
 * In place of `content-security-policy`, for the documentation page alone: it takes everything from here, and Swagger UI
 * sets styles in attributes. Unlike the default of its plugin this does not make browsers change to HTTPS, which whoever
 * reaches the service by plain HTTP may not have.
 */
export const DOCS_CONTENT_POLICY = {
  'default-src': "'self'",
  'style-src': "'self' 'unsafe-inline'",
  'img-src': "'self' data:",
  'object-src': "'none'",
  'base-uri': "'none'",
  'form-action': "'none'",
  'frame-ancestors': "'none'",
};
