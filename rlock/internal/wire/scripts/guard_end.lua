-- Comes behind the source of a guarded write, which is a function by then: it returns what the source returns, and fails as
-- the source does.
--
-- An error, with "ERR " or without, by which a server says that it has not executed the script, and which makes a client send it again, is no
-- error of a source: the reply is "ERR a script may not fail with an error of the server: " and that.
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
