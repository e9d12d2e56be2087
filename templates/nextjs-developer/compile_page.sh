#!/bin/bash
# Starts the server and asks for the first page, so that it is compiled while the template is built.

function ping_server() {
	until [[ $(curl -s -o /dev/null -w "%{http_code}" "http://localhost:3000") -eq 200 ]]; do
		sleep 0.1
	done
}

ping_server &
cd /home/user && exec npx next dev --turbo
