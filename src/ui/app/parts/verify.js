/** A program that verifies a delivery as pasted: Node.js, nothing to install. */
export const verifySnippet = `// node verify.mjs, with WEBHOOK_SECRET=whsec_… in the environment
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';

const secret = Buffer.from(process.env.WEBHOOK_SECRET.replace('whsec_', ''), 'base64');

createServer(async (request, response) => {
  let body = '';
  for await (const piece of request) body += piece;
  const { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signatures } = request.headers;
  const wanted = createHmac('sha256', secret).update(\`\${id}.\${time}.\${body}\`).digest();
  const fresh = Math.abs(Date.now() / 1000 - Number(time)) < 300;
  const signed = String(signatures).split(' ').some((signature) => {
    const given = Buffer.from(signature.replace('v1,', ''), 'base64');
    return given.length === wanted.length && timingSafeEqual(given, wanted);
  });
  response.writeHead(fresh && signed ? 204 : 401).end();
  console.log(fresh && signed ? 'verified' : 'refused', body);
}).listen(9000);
`;
