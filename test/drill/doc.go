// Package drill plants incidents on a real broker, one after the other, and types what somebody
// would type who was woken by one: the commands of docs/history.md must say what the cause is. Each
// incident is a script to plant it, and rows that each have a command and what it has to say.
package drill
