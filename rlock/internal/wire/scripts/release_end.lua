-- Comes behind the source of a guarded write that a release carries: see release.lua. The step of the release follows, as a
-- function of its keys and arguments, whatever became of the source, and this at the end of it. Before it, on the line behind
-- the source, is release_answer.lua.
--
-- {1, reply, step}    the source was executed: what it has returned, or its error, and the reply of the step, or its error
-- {0, refused, step}  it was not: the error of the guard, "RLOCK_FENCED <number>" if the lock does not have the tenure
end, stepKeys, stepArgs)
if not stepped then
	left = {err = type(left) == 'table' and left.err or tostring(left)}
end
if not done then
	reply = {err = type(reply) == 'table' and reply.err or tostring(reply)}
elseif reply == nil then
	reply = false -- a nil would end the reply
end
return {refused and 0 or 1, reply, left}
