-- Comes behind the source of a guarded write, which is a function: returns what the source returns,
-- and fails like the source.
--
-- By some errors a server says that it has not executed a script, and clients send the script again.
-- A source cannot return such an error: the reply is then "ERR a script may not fail with an error of
-- the server: ", followed by the error.
end)
local said = type(reply) == 'table' and reply.err or not done and tostring(reply) or ''
said = string.gsub(string.gsub(said, '^%-', ''), '^ERR ', '')
local code = string.match(said, '^%u+')
for _, unsent in ipairs({'NOSCRIPT', 'MOVED', 'ASK', 'TRYAGAIN', 'CLUSTERDOWN', 'LOADING', 'REDIRECT'}) do
	if code == unsent then
		return redis.error_reply('ERR a script may not fail with an error of the server: ' .. said)
	end
end
if not done then
	error(reply, 0)
end
return reply
