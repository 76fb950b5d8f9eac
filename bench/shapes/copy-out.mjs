/** COPY … TO STDOUT through the driver. @returns {Promise<Buffer>} */
export function copyOut(client, sql) {
  return new Promise((resolve, reject) => {
    const parts = [];
    client.query({
      submit: (connection) => connection.query(sql),
      handleCopyData: ({ chunk }) => parts.push(Buffer.from(chunk)),
      handleCommandComplete() {},
      handleError: reject,
      handleReadyForQuery: () => resolve(Buffer.concat(parts)),
    });
  });
}
