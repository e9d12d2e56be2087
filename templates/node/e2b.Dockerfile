FROM node:24
