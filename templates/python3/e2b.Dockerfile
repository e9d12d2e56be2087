FROM python:3
